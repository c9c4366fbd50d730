// The interface for events of the simulated world. Derive from it to write a timeline trace, a test
// or a memory timeline, and pass it in the options of a World. Without an observer no event is
// reported, named or kept.
//
// Events are reported when their end time is known; their order has no meaning. Times are simulated
// seconds. Texts and lists are valid during the call only; copy them to keep them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/ranks.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// Receiver of events; all functions but watches() do nothing by default.
class Observer {
 public:
  // Identifies work, so that later events refer to it; never 0, which means "no number".
  using Number = std::uint64_t;

  // A stream of one lane of a group, on which nothing overlaps: "host", "compute", or a name given
  // by the strategy.
  struct Stream {
    std::string_view group;
    int lane = 0;
    std::string_view name;
  };
  // A stream is busy. Work of the compute stream is reported layer by layer.
  struct Work {
    Stream stream;
    Phase phase = Phase::forward;
    std::string_view name;
    double start = 0, end = 0;
    Number number = 0;
    Number after = 0;  // the event that launched it, or brought its input
  };
  // A transfer from the view of one lane. The stream is the communicator, or the route of a
  // message.
  struct Transfer {
    Stream stream;
    std::string_view name;  // the operation: "all_reduce"
    std::string_view what;  // its content: "bucket"
    int which = -1;         // number of the content among several; -1 = there is only one
    double bytes = 0;
    double ready = 0;  // when this lane is ready to begin
    double start = 0, end = 0;
    std::span<const LinkUse> uses;
    Number number = 0;
    Number after = 0;
  };
  // A stream is idle.
  struct Wait {
    Stream stream;
    WaitCause cause = WaitCause::communication;
    double start = 0, end = 0;
    Number after = 0;  // the event that ended the wait
  };
  // A stream has finished optimizer step `index`: the compute stream has executed it, the host has
  // issued it.
  struct Step {
    Stream stream;
    int index = 0;
    double start = 0, end = 0;
  };
  // A link of the world, or `count` equal links that always carry the same traffic.
  struct Link {
    LinkId id = 0;
    std::string_view name, link_class;
    double bytes_per_second = 0;
    double count = 1;
  };

  virtual ~Observer() = default;
  // A group of ranks, and for each rank the lane that represents it.
  virtual void on_ranks(std::string_view /*group*/, std::span<const int> /*lane_of_rank*/) {}
  // Whether the observer wants events of this lane; called once, after on_ranks().
  virtual bool watches(std::string_view group, int lane) const = 0;
  virtual void on_link(const Link&) {}
  virtual void on_work(const Work&) {}
  virtual void on_transfer(const Transfer&) {}
  virtual void on_wait(const Wait&) {}
  virtual void on_step(const Step&) {}

  // Reserves `count` consecutive unused numbers and returns the first.
  Number number(std::size_t count = 1) {
    const Number first = next_;
    next_ += count;
    return first;
  }

 private:
  Number next_ = 1;
};

}  // namespace lockstep
