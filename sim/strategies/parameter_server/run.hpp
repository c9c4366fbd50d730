// State that all parts of a parameter-server run share: the system, the executor with its simulated
// time, the observer, and CPU cores on which both a worker and servers work.
// run_parameter_server() makes one PsRun per run. Private to the room.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "core/index.hpp"
#include "costs/interference.hpp"
#include "engine/executor.hpp"
#include "strategies/parameter_server/watch.hpp"

namespace lockstep {

// One core on which a worker computes and servers work, under a fair scheduler (share_cores() of
// costs/interference.hpp). A program first sleeps as long as its work takes alone. Then it asks how
// much time it lost to the other side meanwhile and sleeps that long, during which it may lose
// more; it repeats this until nothing is lost. Measured: an asynchronous server on the core of one
// of two workers, over loopback, made an update every 135.7 ms; separate cores for service and
// compute would have given 113 to 117 ms.
//
//   worker   | compute, as long as alone | lost during it | lost during that | ...
//   server       | service, as long as alone | missed during it | ...
class SharedCore {
 public:
  // The worker begins (`on`) or ends computing at `now`.
  void compute(bool on, double now) {
    advance(now);
    computing_ = on;
    booked_ = lost_;
  }
  // Seconds that servers took from the worker's compute since the last call, or since the compute
  // began.
  double compute_lost(double now) {
    advance(now);
    const double lost = lost_ - booked_;
    booked_ = lost_;
    return lost > negligible ? lost : 0;
  }
  // A server adds `cores` to the demand (negative: removes them). Returns the seconds that the
  // worker has computed so far in the run.
  double demand(double cores, double now) {
    advance(now);
    demand_ += cores;
    if (demand_ < 1e-12) demand_ = 0;  // a rounding's rest is no demand
    return computed_;
  }
  // Waits shorter than the clock's precision would never end.
  static constexpr double negligible = 2 * clock_precision;

 private:
  // Brings the sums up to `now`, with the speeds that have applied since the last call.
  void advance(double now) {
    const double elapsed = now - since_;
    since_ = now;
    if (!computing_) return;
    computed_ += elapsed;
    lost_ += elapsed * (1 - share_cores(1, demand_).compute);
  }

  bool computing_ = false;
  double demand_ = 0;             // cores that the active servers would keep busy
  double since_ = 0;              // time of the last advance()
  double computed_ = 0;           // seconds in which the worker computed
  double lost_ = 0, booked_ = 0;  // seconds that it lost to servers; the part already reported
};

// An activity of a server that would keep `cores` cores busy, from construction until missed()
// returns 0. `core`: the core that the server shares with a worker; null = a core of its own.
class ServerDemand {
 public:
  ServerDemand(SharedCore* core, double cores, double now)
      : core_(core), cores_(cores), computed_(core ? core->demand(cores, now) : 0) {}
  // Seconds of the server's work that the worker's compute displaced since the last call. If the
  // result is 0, the activity is over and its demand is removed.
  double missed(double now) {
    if (core_ == nullptr) return 0;
    const double computed = core_->demand(0, now);
    const double since = computed - std::exchange(computed_, computed);
    const double late = (1 - share_cores(1, cores_).communication) * since;
    if (late > SharedCore::negligible) return late;
    core_->demand(-cores_, now);
    return 0;
  }

 private:
  SharedCore* core_;
  double cores_;
  double computed_;  // result of SharedCore::demand() at the last call
};

struct PsRun {
  // Adds the system's links to the executor, in their order, and makes a SharedCore for each worker
  // on whose core a server works.
  PsRun(const PsSystem& job, Executor& engine) : system(job), executor(engine) {
    if (system.observer) watch = std::make_unique<PsWatch>(*system.observer, system);
    for (const double capacity : system.links) executor.add_link(capacity);
    for (const int worker : system.core_of_server) {
      if (worker >= 0) cores[worker];
    }
  }
  // The core that the worker shares with servers; null = it shares none.
  SharedCore* core_of_worker(int worker) {
    const auto core = cores.find(worker);
    return core == cores.end() ? nullptr : &core->second;
  }
  // The core that the server shares with a worker; null = it shares none.
  SharedCore* core_of_server(int server) {
    const std::vector<int>& workers = system.core_of_server;
    return at(server) < workers.size() ? core_of_worker(workers[at(server)]) : nullptr;
  }
  const PsMessage& message(int m) const { return system.messages[at(m)]; }
  // Place of the parcel in its lane: the lowest value goes first, equal values in order of arrival.
  int priority(const PsParcel& parcel) const {
    return system.priorities ? message(parcel.message).layer : 0;
  }
  int ranks(int worker) const { return system.workers[at(worker)].ranks; }

  const PsSystem& system;
  Executor& executor;
  std::unique_ptr<PsWatch> watch;   // null = no observer
  std::map<int, SharedCore> cores;  // by worker; workers with a core of their own have no entry
};

}  // namespace lockstep
