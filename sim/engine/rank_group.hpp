// The implementation of RankGroup (engine/ranks.hpp): its clocks, streams and communicators.
// Private to the engine: World makes one per group, and ranks.cpp defines the member functions.
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
  // Starts the group's background programs: one for each communicator, and one for the compute
  // stream if collectives slow compute down (paced_stream.cpp). After close(), the programs end
  // when their queues are empty.
  void start();
  void close();
  // Waits until `there()` is true. A compute stream that collectives slow down advances only as far
  // as needed, because collectives that the program issues next may slow down later items.
  Program await(std::function<bool()> there);
  void compute(Phase phase, const QueuedWork& work, WorkLabel label);
  // The lanes' slow-down of this work in the present step. It differs from `factors` only if the
  // job has several kinds of devices and the work takes longer on another device.
  Factors factors_of(const QueuedWork& work) const;

  // A mark, and the ledger of the group's traffic when the host issued the mark.
  struct Marked {
    Mark at;
    Links links;
  };
  const Marked& marked(int number) const {
    return marks.at(static_cast<std::size_t>(number - first_mark));
  }

  // Reports to the observer; null = there is no observer, or it watches no lane of the group.
  std::unique_ptr<Watch> watch;
  std::string name;
  bool one_thread;
  Network& network;
  Links links;  // ledger of the traffic of the group's transfers
  std::deque<Communicator>& all_communicators;
  Interference interference;
  Bell program;  // rung when a step, a mark or an awaited event is computed
  ComputeStream stream;
  std::vector<Communicator*> communicators;  // only communicators of this group
  std::deque<SideStream> side_streams;
  HostClock host;
  Factors factors;  // in the present step, for work that takes equally long on all devices
  std::vector<int> device_of_lane;  // empty = the platform's device everywhere
  std::deque<Marked> marks;
  int first_mark = 0;   // number of marks.front()
  int collectives = 0;  // issued so far
};

}  // namespace lockstep
