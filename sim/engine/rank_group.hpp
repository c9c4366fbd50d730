// What stands behind a RankGroup.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/streams.hpp"

namespace lockstep {

struct RankGroup::Impl final : Waker {
  Impl(RankGroupSpec spec, Links& all_links);

  void wake() override { program.ring(); }
  // Starts the actors: one per communicator, and one for the compute stream if it has to keep pace.
  void start(Network& network, sg::s4u::Host* where);
  void close();
  void await(const Event& event);

  // Instead of start(), where nothing can disturb a collective: then it takes what it takes alone,
  // which is known in advance, and nothing needs SimGrid's clock. Time passes in advance(), which
  // makes the next thing happen, and only while the program waits: before, it may still issue work
  // that comes first. False if nothing is left to happen.
  void start_alone(NetworkKind network);
  bool advance();
  // The program waits, either way.
  template <class Condition>
  void wait_until(Condition&& condition) {
    if (alone) {
      stream.settle(now);
      while (!condition() && advance()) {
      }
    }
    program.wait(condition);
  }

  std::string name;
  bool one_thread;
  Links& links;
  Interference interference;
  Doorbell program;  // the actor that runs the group's program waits here
  ComputeStream stream;
  std::deque<Communicator> communicators;
  std::deque<SideStream> side_streams;
  HostClock host;
  Factors factors;
  std::optional<NetworkKind> alone;  // where collectives take their closed forms
  double now = 0;                    // if alone: nothing happens before this any more
};

}  // namespace lockstep
