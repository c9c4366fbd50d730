// The implementation of RankGroup. Private to the engine.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/streams.hpp"

namespace lockstep {

struct RankGroup::Impl final : Waker {
  // `all`: the communicators of the world.
  Impl(RankGroupSpec spec, Network& network, std::deque<Communicator>& all, Observer* observer);

  void wake() override { program.ring(); }
  // Starts the programs: one per communicator, and one for the compute stream if it has to keep
  // pace. They end when nothing is left to do after close().
  void start();
  void close();
  // Waits until `there()`. The compute stream advances only as far as needed, because work that the
  // program issues next may slow down later items.
  Program await(std::function<bool()> there);
  void compute(Phase phase, const QueuedWork& work, WorkLabel label);
  Factors factors_of(const QueuedWork& work) const;

  // A mark, and the links that the group's transfers had requested when the host issued it.
  struct Marked {
    Mark at;
    Links links;
  };
  const Marked& marked(int number) const {
    return marks.at(static_cast<std::size_t>(number - first_mark));
  }

  std::unique_ptr<Watch> watch;  // null = no observer
  std::string name;
  bool one_thread;
  Network& network;
  Links links;  // link requests of the group's transfers
  std::deque<Communicator>& all_communicators;
  Interference interference;
  Bell program;  // the group's program waits here
  ComputeStream stream;
  std::vector<Communicator*> communicators;  // of this group
  std::deque<SideStream> side_streams;
  HostClock host;
  Factors factors;  // of this step, for work that all devices do alike
  std::vector<int> device_of_lane;
  std::deque<Marked> marks;
  int first_mark = 0;  // number of the first that is kept
  int collectives = 0;
};

}  // namespace lockstep
