// A communicator's queue of collectives and the actor that carries them out one after the other.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/doorbell.hpp"
#include "engine/event_state.hpp"
#include "engine/interference.hpp"
#include "engine/network.hpp"

namespace lockstep {

class Communicator final : public Waker {
 public:
  Communicator(std::string name, int lanes, std::vector<std::vector<int>> groups,
               Interference& interference);

  const std::string& name() const { return name_; }
  // Ready per lane when its host has come this far and both events have happened.
  Event start(const TransferSpec& spec, const HostClock& host, const Event& after,
              const Event& issued = {});
  // The actor's program: returns when the world closes and nothing is queued.
  void serve(Network& network);
  void close();
  void wake() override { bell_.ring(); }

  // How a lane's gap from `from` to the end of the collective behind `state` divides.
  struct Gap {
    double exposed = 0;     // this or an earlier collective was running
    double host_bound = 0;  // the own host had not issued it yet
    double waiting = 0;     // others had not arrived
  };
  Gap divide(const Event::State& state, std::size_t lane, double from) const;

 private:
  struct Operation {
    TransferSpec spec;
    HostClock host;
    Event after, issued;
    std::shared_ptr<Event::State> done;
  };
  struct Window {
    double start = 0, end = 0;
  };
  static bool ready(const Operation& operation) {
    return operation.after.known() && operation.issued.known();
  }
  void find_ready(Operation& operation) const;
  void run(Operation& operation, Network& network);
  double carry_beside_compute(const TransferSpec& spec, double start, Network& network);
  const Window& window(std::size_t serial, std::size_t group) const {
    return windows_[serial * groups_ + group - first_window_];
  }

  std::string name_;
  std::size_t lanes_;
  std::size_t groups_;
  std::vector<int> group_of_lane_;  // empty = one group
  Interference& interference_;
  std::deque<Operation> queue_;
  std::deque<Window> windows_;  // of the latest collectives, all groups of one next to each other
  std::size_t first_window_ = 0;
  std::size_t carried_ = 0;
  Doorbell bell_;
  bool closing_ = false;
};

}  // namespace lockstep
