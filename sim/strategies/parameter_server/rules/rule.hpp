// The interface between a server and its consistency rule: when pushes become an update, which
// pushes are dropped, and which workers may pull. server.cpp calls the rule before it updates and
// before it answers. To add a rule, derive from MessageRule in a file of this folder and use it in
// consistency_rule(). change.hpp changes rules during a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "strategies/parameter_server/options.hpp"

namespace lockstep {

// The rule of one message (a key, or all keys of a server). As in ps-lite, each message has its
// own: one key may be pulled while another still waits for pushes. The default is asynchronous:
// each push is an update, and no worker waits (fact 69). Workers are indices into
// PsSystem::workers. One worker may represent several equal ranks: pushes() and pushes_per_update()
// count its push once for each rank; settle() and begin_midway() count it once.
//
// The server calls for each push, in this order:
//   drops()             -> true: settle(), then may_go_on() decides about the answer
//   pushes_per_update() -> too few pushes so far: pusher_waits() decides about the answer
//   settle()            for each push of the update
//   begin_round()       the update is made
//   may_go_on()         for each worker that waits because of an earlier push
//   may_pull()          for each worker whose push was in the update and that has no answer yet
class MessageRule {
 public:
  virtual ~MessageRule() = default;
  // Called if the rule begins during a run. `earlier` is, by worker, the number of pushes of steps
  // that have begun under the previous rule and are not settled (applied or dropped) yet. The
  // pushes among them that already wait at the server become one update together. Each push that
  // arrives later becomes an update of its own, unless it is dropped. The reason: earlier messages
  // of the same step were already answered without waiting. If the rest waited, the messages of one
  // step would be combined with different steps of the other workers.
  void begin_midway(std::vector<int> earlier) { earlier_ = std::move(earlier); }
  // The number of pushes, counted by rank, in the update that will contain the worker's next push.
  int pushes_per_update(int worker) const { return is_earlier(worker) ? 1 : pushes(); }
  // A push of the worker was applied or dropped at `now`, in seconds of simulated time.
  void settle(int worker, double now) {
    if (is_earlier(worker)) --earlier_[at(worker)];
    advance_clock(worker, now);
  }
  // The message has had `version` updates, and pushes for the next update may arrive.
  virtual void begin_round(std::int64_t /*version*/) {}
  // Whether a worker gets its answer only after the update that contains its push.
  virtual bool pusher_waits() const { return true; }
  // Whether a push is dropped, if its gradients were computed on version `read` and the message has
  // had `version` updates.
  virtual bool drops(std::int64_t /*read*/, std::int64_t /*version*/) const { return false; }
  // Whether the worker may pull directly after the update that contains its push. If not, the
  // worker waits until may_go_on() is true. DSSP counts the calls.
  // REQUIRES: called once for each push of an update whose worker has no answer yet.
  virtual bool may_pull(int /*worker*/) { return true; }
  // Whether the worker may pull after a wait, after a dropped push, or before its first step.
  virtual bool may_go_on(int /*worker*/) const { return true; }

 private:
  // The number of pushes, counted by rank, in an update; 1 = each push is an update.
  virtual int pushes() const { return 1; }
  // Called for each settled push of the worker. A worker's clock is the number of these pushes.
  virtual void advance_clock(int /*worker*/, double /*now*/) {}
  bool is_earlier(int worker) const { return !earlier_.empty() && earlier_[at(worker)] > 0; }

  std::vector<int> earlier_;  // by worker; empty if the rule is valid from the beginning of the run
};

// Makes the MessageRule of one message. `workers` is the size of PsSystem::workers.
using PsRule = std::function<std::unique_ptr<MessageRule>(int workers)>;

// Each push is an update, and no worker waits (async, elastic).
PsRule asynchronous();
// Each update uses the pushes of `ranks - backup` ranks, and workers wait for it (sync). With
// `backup` > 0, pushes whose gradients were computed on older weights are dropped.
PsRule bulk_synchronous(int ranks, int backup = 0);
// For each update, `drawn` workers are drawn (McMahan et al. 2017). The update uses the first
// `drawn - backup` pushes; later pushes are dropped. Draws are keyed by seed and version.
PsRule sampled_synchronous(int drawn, int backup, std::uint64_t seed);
// Each update uses floor(ranks / splitting) pushes, at least 1. If every rank pushes once, about
// `splitting` updates are made.
PsRule softsync(int ranks, int splitting);
// Each push is an update. A worker waits while its clock, the number of its applied pushes, is more
// than `bound` ahead of the slowest worker's clock (ssp, modified-async). `highest` is the largest
// value of an adaptive bound (DSSP); 0 = the bound is fixed.
PsRule stale_synchronous(int bound, int highest = 0);

// The rule that the options name. Throws ConfigError if the options do not fit `ranks` ranks, for
// example if an update would wait for no worker.
PsRule consistency_rule(const ParameterServerOptions& options, int ranks, std::uint64_t seed);
// Number of workers that are drawn for an update, at least 1; without `participants`, `ranks`.
int drawn_workers(const ParameterServerOptions& options, int ranks);

// The simulated time of a worker's last applied push, and the seconds between that push and the
// push before it.
struct PushTimes {
  double last = 0, interval = 0;
};

// DSSP (Zhao et al. 2019, algorithm 2): the number of extra clocks, 0 to `most`, by which the
// fastest worker may exceed the bound. The result minimises the fastest worker's wait for the
// slowest worker, assuming that the interval between the last two pushes of each stays the same.
int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most);

}  // namespace lockstep
