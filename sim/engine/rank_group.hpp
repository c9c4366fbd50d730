// The implementation of RankGroup: its clocks, streams and communicators. Private to the engine;
// World makes one per group, and the member functions are in ranks.cpp.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/streams.hpp"

namespace lockstep {

struct RankGroup::Impl final : Waker {
  // `all` holds the communicators of the world, to which the group adds its own.
  Impl(RankGroupSpec spec, Network& network, std::deque<Communicator>& all, Observer* observer);

  void wake() override { program.ring(); }
  // Starts the group's background programs: one per communicator, and one for the compute stream if
  // it must keep pace with time. The programs end when nothing is left to do after close().
  void start();
  void close();
  // Waits until `there()`. The compute stream advances only as far as needed, because work that the
  // program issues next may slow down later items.
  Program await(std::function<bool()> there);
  void compute(Phase phase, const QueuedWork& work, WorkLabel label);
  // The step's slow-down by lane for this work. Differs from `factors` only in jobs with several
  // kinds of devices, if the work takes longer on another device.
  Factors factors_of(const QueuedWork& work) const;

  // A mark, and the links that the group's transfers had requested when the host issued it.
  struct Marked {
    Mark at;
    Links links;
  };
  const Marked& marked(int number) const {
    return marks.at(static_cast<std::size_t>(number - first_mark));
  }

  // Reports to the observer; null = there is none, or it watches no lane.
  std::unique_ptr<Watch> watch;
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
  Factors factors;                  // of this step, for work that takes equally long on all devices
  std::vector<int> device_of_lane;  // empty = the platform's device everywhere
  std::deque<Marked> marks;
  int first_mark = 0;   // number of the first mark that is kept
  int collectives = 0;  // issued so far
};

}  // namespace lockstep
