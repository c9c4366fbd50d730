// The simulated world: links, rank groups (engine/ranks.hpp), communicators, and the programs that
// use them, on an executor.
//
//   World world;
//   LinkId nic = world.add_link("nic", "NIC", 12.5e9, 4);
//   RankGroup& ranks = world.add_ranks({.ranks_per_lane = {8}});
//   world.spawn("driver", driver(ranks));
//   world.run();                      // until every program has returned
//   ... ranks.steps(), world.traffic()
//
// Links, rank groups and communicators are added before run().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/executor.hpp"
#include "engine/observer.hpp"
#include "engine/ranks.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

class Channel;  // engine/channel.hpp

// How a world runs; given to its constructor.
struct WorldOptions {
  NetworkKind network = NetworkKind::flow;
  // Chooses the executor (engine/executor.hpp); automatic = the loop. SimGrid starts at most once
  // per process. A caller that simulates several points on SimGrid must fork a child for each point
  // BEFORE the first start.
  Engine engine = Engine::automatic;
  Observer* observer = nullptr;  // receives all events; null = there is none
};

// One simulated job. Owns all objects that it returns references to. Not safe for several threads.
class World {
 public:
  explicit World(const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Adds `count` equal links, each carrying the same traffic. Each link transfers
  // `bytes_per_second` in one direction. `link_class` ("NVLink", "NIC", ...) is the row of the
  // traffic report that counts the link.
  LinkId add_link(const std::string& name, const std::string& link_class, double bytes_per_second,
                  double count = 1);
  // Declares whether transfers over the link may overlap in time; by default they may. Pass false
  // if one communicator carries all transfers over the link, so that they can be computed in
  // advance.
  void meet(LinkId link, bool may);
  // Declares that the link's capacity changes during the run. Then no transfer over the link is
  // computed in advance.
  void varies(LinkId link);
  // Changes a link's capacity at once, also for transfers under way.
  // REQUIRES: varies() was called for the link before the run.
  void set_capacity(LinkId link, double bytes_per_second);
  RankGroup& add_ranks(RankGroupSpec spec);
  // Adds a channel for messages from every lane of `from` to the same lane of `to`.
  // REQUIRES: both groups have the same number of lanes.
  Channel& add_channel(const std::string& name, RankGroup& from, RankGroup& to);

  // Starts a program at `at`, or at once if `at` has passed. run() waits for it.
  ProgramId spawn(const std::string& name, Program program, double at = 0);
  // Starts a background program, for which over() does not wait.
  // REQUIRES: the program ends when over() rings; otherwise run() does not return.
  void spawn_beside(const std::string& name, Program program);
  Bell& over();  // rings when every program of spawn() has returned
  // Runs until every program has returned and all issued work is complete. If a program
  // throws an exception, run() throws it. Throws std::logic_error if the remaining programs all
  // wait for each other.
  void run();

  // --- for programs
  Executor& executor();
  double now() const;
  // Carries a transfer, which shares its links with other transfers, and returns when it is
  // complete.
  Program transfer(TransferSpec spec);

  // --- after run()
  // Traffic by link class, in order of registration.
  std::vector<LinkTotals> traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
