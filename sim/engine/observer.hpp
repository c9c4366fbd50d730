// The interface through which a world reports its events. A timeline trace, a test or a memory
// timeline derives from it and is passed in the options of a World. Without an observer, no event
// is reported, named or stored.
//
// An event is reported as soon as its end time is known; the order of reports has no meaning. Times
// are simulated seconds. Texts and lists are valid only during the call; copy them to keep them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/ranks.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// A receiver of events. All functions except watches() do nothing by default.
class Observer {
 public:
  // Identifies an event, so that later events can refer to it. Never 0, which means "no number".
  using Number = std::uint64_t;

  // A stream of one lane of a group, on which nothing overlaps: "host", "compute", or a name given
  // by the strategy.
  struct Stream {
    std::string_view group;
    int lane = 0;
    std::string_view name;
  };
  // A stream is busy. The compute stream's work is reported layer by layer.
  struct Work {
    Stream stream;
    Phase phase = Phase::forward;
    std::string_view name;
    double start = 0, end = 0;
    Number number = 0;
    Number after = 0;  // the event that launched this work, or delivered its input
  };
  // A transfer as one lane sees it. The stream is the communicator, or the route of a message.
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
  // A stream has reached the end of optimizer step `index`: the compute stream has executed the
  // step, or the host has issued it.
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
  // A rank group, and for each of its ranks the lane that represents it.
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
