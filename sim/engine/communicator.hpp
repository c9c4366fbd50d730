// A communicator's queue of collectives and the program that carries them out one after the other.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine/event_state.hpp"
#include "engine/gap.hpp"
#include "engine/interference.hpp"
#include "engine/network.hpp"
#include "engine/watch.hpp"

namespace lockstep {

class Communicator final : public Waker {
 public:
  Communicator(std::string name, int lanes, std::vector<std::vector<int>> groups,
               Interference& interference, Network& network, Watch* watch);

  const std::string& name() const { return name_; }
  // Ready per lane when its host has come this far and both events have happened.
  Event start(const TransferSpec& spec, const HostClock& host, const Event& after,
              const Event& issued = {});
  // Its program: returns when the world closes and nothing is queued.
  Program serve();
  void close();
  void wake() override { bell_.ring(); }

  // How the gaps between the lanes' positions and the end of the collective behind `state` divide,
  // summed over ranks, and added to each lane's step. Moves the positions there.
  Gap divide(const Event::State& state, std::span<const double> ranks, std::span<double> positions,
             LaneSteps& steps) const;
  // The same for one lane, piece by piece, in order.
  struct Idle {
    WaitCause cause = WaitCause::waiting;
    double start = 0, end = 0;
  };
  void idle_before(const Event::State& state, std::size_t lane, double from,
                   std::vector<Idle>& pieces) const;
  // No position that divide() will be asked about is before `time` any more: drops the windows that
  // ended by then in every group.
  void forget(double time);

 private:
  struct Operation {
    TransferSpec spec;
    HostClock host;
    Event after, issued;
    std::shared_ptr<Event::State> done;
    Observer::Number launch = 0;    // the host's
    std::vector<Window> windows{};  // by group
    std::size_t last = 0;           // the group that starts last
    double end = 0;                 // of that group's
    double computed = 0;  // by the compute stream until the transfer last caught up with it
  };
  static bool ready(const Operation& operation) {
    return operation.after.known() && operation.issued.known();
  }
  void find_ready(Operation& operation) const;
  double available(const Event::State& state, std::size_t lane) const;
  void find_start(Operation& operation);
  Program carry_beside_compute(Operation& operation);
  double fallen_behind(Operation& operation, double now) const;
  void finish(Operation& operation);
  void tell(const Operation& operation) const;
  Gap divide_lane(const Event::State& state, std::size_t lane, double from) const;
  std::size_t group_of(std::size_t lane) const {
    return group_of_lane_.empty() ? 0 : static_cast<std::size_t>(group_of_lane_[lane]);
  }
  bool forgotten(std::size_t serial) const { return serial < first_kept_; }
  const Window& window(std::size_t serial, std::size_t group) const {
    return windows_[(serial - first_kept_) * groups_ + group];
  }

  std::string name_;
  std::size_t lanes_;
  std::size_t groups_;
  std::vector<int> group_of_lane_;  // empty = one group
  Interference& interference_;
  Network& network_;
  Watch* watch_;  // null = nobody listens
  std::deque<Operation> queue_;
  std::vector<Window> windows_;  // of collectives not forgotten, all groups of one side by side
  std::size_t first_kept_ = 0;   // serial of the first of them
  std::size_t carried_ = 0;
  Bell bell_;
  bool closing_ = false;
};

}  // namespace lockstep
