// What happens in the simulated world, told to whoever listens: a timeline trace, a test, a memory
// timeline. Given to a World by its options; without one nothing is told, named or kept.
//
// Everything is told once its end is known, in no order that means anything. Times are simulated
// seconds. Texts and lists are there while it is told: what is kept is copied.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/ranks.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

class Observer {
 public:
  // Something may be told to have a number (never 0), by which what follows from it names it.
  using Number = std::uint64_t;

  // A stream of one lane of a group, on which nothing overlaps: "host", "compute", or what the
  // strategy calls it.
  struct Stream {
    std::string_view group;
    int lane = 0;
    std::string_view name;
  };
  // A stream is busy. Work of the compute stream is told layer by layer.
  struct Work {
    Stream stream;
    Phase phase = Phase::forward;
    std::string_view name;
    double start = 0, end = 0;
    Number number = 0;
    Number after = 0;  // what launched it, or brought what it works on
  };
  // As one lane takes part in it. The stream is the communicator, or the way of a message.
  struct Transfer {
    Stream stream;
    std::string_view name;  // of the operation: "all_reduce"
    std::string_view what;  // what it carries: "bucket"
    int which = -1;         // of those, the 2nd; -1 = there is only one
    double bytes = 0;
    double ready = 0;  // when this lane could have begun
    double start = 0, end = 0;
    std::span<const LinkUse> uses;
    Number number = 0;
    Number after = 0;
  };
  // A stream stands still.
  struct Wait {
    Stream stream;
    WaitCause cause = WaitCause::communication;
    double start = 0, end = 0;
    Number after = 0;  // what ended it
  };
  // A stream is through with optimizer step `index`: the compute stream has done it, the host has
  // issued it.
  struct Step {
    Stream stream;
    int index = 0;
    double start = 0, end = 0;
  };
  struct Link {
    LinkId id = 0;
    std::string_view name, link_class;
    double bytes_per_second = 0;
    double count = 1;
  };

  virtual ~Observer() = default;
  // A group of ranks, and the lane that stands for each of them.
  virtual void on_ranks(std::string_view /*group*/, std::span<const int> /*lane_of_rank*/) {}
  // Whether it wants to hear of this lane; asked once, after on_ranks().
  virtual bool watches(std::string_view group, int lane) const = 0;
  virtual void on_link(const Link&) {}
  virtual void on_work(const Work&) {}
  virtual void on_transfer(const Transfer&) {}
  virtual void on_wait(const Wait&) {}
  virtual void on_step(const Step&) {}

  // The first of so many numbers in a row that nobody has.
  Number number(std::size_t count = 1) {
    const Number first = next_;
    next_ += count;
    return first;
  }

 private:
  Number next_ = 1;
};

}  // namespace lockstep
