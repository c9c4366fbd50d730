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

struct WorldOptions {
  NetworkKind network = NetworkKind::flow;
  // SimGrid once per process, ever: callers that simulate several points on it fork one child per
  // point BEFORE. automatic = the loop.
  Engine engine = Engine::automatic;
  Observer* observer = nullptr;  // hears of everything; null = nobody listens
};

class World {
 public:
  explicit World(const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // `count` equal links of class `link_class` ("NVLink", "NIC", ...: the classes of the traffic
  // report), each of so many bytes/s one way, that always carry the same traffic.
  LinkId add_link(const std::string& name, const std::string& link_class, double bytes_per_second,
                  double count = 1);
  // Whether transfers may meet on the link, as they may unless this says that one communicator has
  // all of them. Where none can meet, they are worked out ahead of time.
  void meet(LinkId link, bool may);
  // Its capacity will be set during the run: no transfer over it is worked out ahead of time.
  void varies(LinkId link);
  // From now on; transfers under way feel it.
  void set_capacity(LinkId link, double bytes_per_second);
  RankGroup& add_ranks(RankGroupSpec spec);
  // Messages from every lane of `from` to the same lane of `to`, which has as many.
  Channel& add_channel(const std::string& name, RankGroup& from, RankGroup& to);

  // Programs begin at `at`, or now if that has passed.
  ProgramId spawn(const std::string& name, Program program, double at = 0);
  // Of what goes on beside them: nobody waits for it. It must end when over() rings.
  void spawn_beside(const std::string& name, Program program);
  Bell& over();  // rings when every spawned program has returned
  // Runs until every spawned program has returned, and what they started is done. An exception
  // thrown by a program leaves run(). Programs that can never go on throw std::logic_error.
  void run();

  // --- for programs
  Executor& executor();
  double now() const;
  Program transfer(TransferSpec spec);  // competes for its links

  // --- after run()
  std::vector<LinkTotals> traffic() const;  // by link class, in order of registration

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
