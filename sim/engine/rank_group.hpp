// What stands behind a RankGroup.
#pragma once

#include <deque>
#include <memory>
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
};

}  // namespace lockstep
