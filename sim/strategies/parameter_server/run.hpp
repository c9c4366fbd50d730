// What all parts of a parameter-server run share: the system, simulated time, an observer's ear, and
// the cores on which both workers and servers work. Private to the room.
#pragma once

#include <map>
#include <memory>

#include "core/index.hpp"
#include "engine/executor.hpp"
#include "strategies/parameter_server/watch.hpp"

namespace lockstep {

// One core on which a worker computes and servers work, under a fair scheduler (share_cores()).
// What runs there first takes the time it takes alone; then it goes on for what it lost meanwhile,
// and so on until nothing was lost. Measured: an asynchronous server on the core of one of two
// workers, over loopback, made an update every 135.7 ms where service and compute on cores of their
// own would have made one every 113 to 117 ms.
class SharedCore {
 public:
  // The worker begins or ends computing.
  void compute(bool on, double now);
  // Seconds that servers took from the worker's compute since the last call or since it began.
  double compute_lost(double now);

 private:
  friend class ServerDemand;
  void advance(double now);

  bool computing_ = false;
  double demand_ = 0;  // cores that the active servers would keep busy
  double since_ = 0;
  double computed_ = 0;         // seconds in which the worker computed
  double lost_ = 0, told_ = 0;  // seconds that computing lost to servers; told of them
};

// An activity of a server that keeps `cores` of the core busy. Null core: it shares none.
class ServerDemand {
 public:
  ServerDemand(SharedCore* core, double cores, double now);
  // What it has missed since the last call while the worker computed; 0 = nothing, and the core is
  // free again.
  double missed(double now);

 private:
  SharedCore* core_;
  double cores_;
  double computed_ = 0;  // SharedCore::computed_ at the last call
};

struct PsRun {
  PsRun(const PsSystem& played, Executor& player);

  // Null: not shared.
  SharedCore* core_of_worker(int worker);
  SharedCore* core_of_server(int server);
  const PsMessage& message(int m) const { return system.messages[at(m)]; }
  int ranks(int worker) const { return system.workers[at(worker)].ranks; }
  // To what is left of them while these neighbours send.
  void change_links(const std::vector<int>& links, const std::vector<bool>& sending);

  const PsSystem& system;
  Executor& executor;
  std::unique_ptr<PsWatch> watch;   // null = nobody listens
  std::map<int, SharedCore> cores;  // by worker
};

}  // namespace lockstep
