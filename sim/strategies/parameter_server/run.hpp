// The state that all parts of a parameter-server run share: the system, the executor with its
// simulated time, the observer, and the CPU cores that a worker shares with servers.
// run_parameter_server() makes one PsRun for each run. Private to sim/strategies/parameter_server.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "core/index.hpp"
#include "costs/interference.hpp"
#include "engine/executor.hpp"
#include "strategies/parameter_server/watch.hpp"

namespace lockstep {

// A core on which a worker computes and servers work, under a fair scheduler (share_cores() of
// costs/interference.hpp). A program first sleeps as long as its work takes on a core of its own.
// Then it finds out how much time the other side took in this period, and sleeps that long, during
// which it may lose more time. It repeats this until nothing is lost. Measured: an asynchronous
// server on the core of one of two workers, over loopback, made an update every 135.7 ms. Separate
// cores for service and compute would have given 113 to 117 ms.
//
//   worker   | compute, as long as on its own | lost during it | lost during that | ...
//   server       | service, as long as on its own | missed during it | ...
class SharedCore {
 public:
  // The worker begins (`on`) or ends its compute at `now`.
  void compute(bool on, double now) {
    advance(now);
    computing_ = on;
    booked_ = lost_;
  }
  // The seconds that servers have taken from the worker's compute since the last call, or since the
  // compute began.
  double compute_lost(double now) {
    advance(now);
    const double lost = lost_ - booked_;
    booked_ = lost_;
    return lost > negligible ? lost : 0;
  }
  // A server adds `cores` to the demand, or removes them if negative. Returns the seconds that the
  // worker has computed so far in the run.
  double demand(double cores, double now) {
    advance(now);
    demand_ += cores;
    if (demand_ < 1e-12) demand_ = 0;  // a remainder of rounding is not a demand
    return computed_;
  }
  // A wait that is shorter than the clock's precision would be repeated endlessly.
  static constexpr double negligible = 2 * clock_precision;

 private:
  // Updates the sums to the time `now`, with the speeds that were valid since the last call.
  void advance(double now) {
    const double elapsed = now - since_;
    since_ = now;
    if (!computing_) return;
    computed_ += elapsed;
    lost_ += elapsed * (1 - share_cores(1, demand_).compute);
  }

  bool computing_ = false;
  double demand_ = 0;    // number of cores that the active servers would keep busy
  double since_ = 0;     // time of the last advance()
  double computed_ = 0;  // seconds in which the worker computed
  // Seconds that it lost to servers; the part that was already reported.
  double lost_ = 0, booked_ = 0;
};

// An activity of a server that would keep `cores` cores busy. It lasts from construction until
// missed() returns 0. `core` is the core that the server shares with a worker; null = the server
// has a core of its own.
class ServerDemand {
 public:
  ServerDemand(SharedCore* core, double cores, double now)
      : core_(core), cores_(cores), computed_(core ? core->demand(cores, now) : 0) {}
  // The seconds of the server's work that the worker's compute has displaced since the last call.
  // If the result is 0, the activity has ended and its demand is removed.
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
  // Adds the system's links to the executor, in order, and makes a SharedCore for each worker on
  // whose core a server works.
  PsRun(const PsSystem& job, Executor& engine) : system(job), executor(engine) {
    if (system.observer) watch = std::make_unique<PsWatch>(*system.observer, system);
    for (const double capacity : system.links) executor.add_link(capacity);
    for (const int worker : system.core_of_server) {
      if (worker >= 0) cores[worker];
    }
  }
  // The core that the worker shares with servers; null = it has a core of its own.
  SharedCore* core_of_worker(int worker) {
    const auto core = cores.find(worker);
    return core == cores.end() ? nullptr : &core->second;
  }
  // The core that the server shares with a worker; null = it has a core of its own.
  SharedCore* core_of_server(int server) {
    const std::vector<int>& workers = system.core_of_server;
    return at(server) < workers.size() ? core_of_worker(workers[at(server)]) : nullptr;
  }
  const PsMessage& message(int m) const { return system.messages[at(m)]; }
  // The parcel's priority in its lane (wire.hpp): the lowest value goes first; equal values go in
  // order of arrival.
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
