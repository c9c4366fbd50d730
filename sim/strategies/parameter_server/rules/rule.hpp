// The interface between a server and its consistency rule: when pushes become an update, which
// pushes are dropped, and which workers may pull. server.cpp asks the rule before it updates and
// before it answers. To add a rule, derive from MessageRule in a file beside this one and name it
// in consistency_rule(). change.hpp changes rules during a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "strategies/parameter_server/options.hpp"

namespace lockstep {

// Keeps one message (a key, or all keys of a server) consistent by itself, as ps-lite does: one key
// may be pulled while another still waits for pushes. The default is asynchronous: each push is an
// update, and no worker waits (fact 69). Numbers of pushes count ranks, because one simulated
// worker may stand for several equal ranks. Workers are indices into PsSystem::workers.
//
// The server calls for each push, in this order:
//   drops()             -> true: settle(), then may_go_on() decides about the answer
//   pushes_per_update() -> too few pushes so far: pusher_waits() decides about the answer
//   settle()            for each push of the update
//   begin_round()       the update is made
//   may_go_on()         for each worker that waits from before
//   may_pull()          for each worker whose push was in the update and that has no answer yet
class MessageRule {
 public:
  virtual ~MessageRule() = default;
  // The rule begins during a run. `earlier`: by worker, the number of pushes that belong to steps
  // of the previous rule and are not settled. Each of these pushes is an update of its own. The
  // earlier messages of its step were already answered without waiting, so the rest must be, too;
  // otherwise messages of one step would be combined with different steps of the other workers.
  void begin_midway(std::vector<int> earlier) { earlier_ = std::move(earlier); }
  // Number of pushes in the update to which the worker's next push belongs.
  int pushes_per_update(int worker) const { return is_earlier(worker) ? 1 : pushes(); }
  // A push of the worker has been applied or dropped at `now`, in seconds of simulated time.
  void settle(int worker, double now) {
    if (is_earlier(worker)) --earlier_[at(worker)];
    advance_clock(worker, now);
  }
  // `version` updates of the message have been made, and pushes for the next one may come.
  virtual void begin_round(std::int64_t /*version*/) {}
  // Whether a worker gets its answer only after the update that contains its push.
  virtual bool pusher_waits() const { return true; }
  // Whether a push is dropped whose gradients were computed on version `read`, if the message has
  // had `version` updates.
  virtual bool drops(std::int64_t /*read*/, std::int64_t /*version*/) const { return false; }
  // Whether the worker may pull directly after the update that contains its push. If not, the
  // worker waits until may_go_on(). Called once for each push: DSSP counts the calls.
  virtual bool may_pull(int /*worker*/) { return true; }
  // Whether the worker may pull after it had to wait, after a dropped push, or before its first
  // step.
  virtual bool may_go_on(int /*worker*/) const { return true; }

 private:
  // Number of pushes in an update; 1 = each push is an update.
  virtual int pushes() const { return 1; }
  // Counts one more settled push of the worker.
  virtual void advance_clock(int /*worker*/, double /*now*/) {}
  bool is_earlier(int worker) const { return !earlier_.empty() && earlier_[at(worker)] > 0; }

  std::vector<int> earlier_;  // by worker; empty if the rule has applied from the beginning
};

// Factory of a consistency rule: makes the MessageRule of one message. `workers` is the size of
// PsSystem::workers.
using PsRule = std::function<std::unique_ptr<MessageRule>(int workers)>;

// Each push is an update, and no worker waits (async, elastic).
PsRule asynchronous();
// One update from the pushes of `ranks - backup` ranks; later pushes are dropped (sync).
PsRule bulk_synchronous(int ranks, int backup = 0);
// Each update is made from `drawn` workers, drawn anew for every update (McMahan et al. 2017). It
// does not wait for `backup` of these workers. Draws are keyed by seed and version.
PsRule sampled_synchronous(int drawn, int backup, std::uint64_t seed);
// An update from every floor(ranks / splitting) pushes, which is about `splitting` updates in a
// round of all ranks.
PsRule softsync(int ranks, int splitting);
// Each push is an update, and a worker is at most `bound` clocks ahead of the slowest (ssp,
// modified-async). `highest`: largest value of an adaptive bound (DSSP); 0 = the bound is fixed.
PsRule stale_synchronous(int bound, int highest = 0);

// The rule that the options name. Throws ConfigError if the options do not fit `ranks` ranks, for
// example if no worker is left to wait for.
PsRule consistency_rule(const ParameterServerOptions& options, int ranks, std::uint64_t seed);
// Number of workers that are drawn for an update, at least 1; `ranks` without `participants`.
int drawn_workers(const ParameterServerOptions& options, int ranks);

// Simulated time of a worker's last applied push, and the seconds between this push and the push
// before it.
struct PushTimes {
  double last = 0, interval = 0;
};

// DSSP (Zhao et al. 2019, algorithm 2): number of extra clocks, 0 to `most`, that the fastest
// worker may go beyond the bound. The result minimizes its wait for the slowest worker, if both
// keep the interval between their last two pushes.
int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most);

}  // namespace lockstep
