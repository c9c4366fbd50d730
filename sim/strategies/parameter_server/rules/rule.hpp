// The interface between a server and its rule of consistency: the questions of a server before it
// updates and before it answers. To add a rule, derive from MessageRule in a file beside this one.
// change.hpp changes rules during a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "strategies/parameter_server/options.hpp"

namespace lockstep {

// Keeps one message (a key, or all keys of a server) consistent by itself. Pushes are counted by
// rank, workers from 0. The default is asynchronous: each push is an update, and no worker waits
// (fact 69).
class MessageRule {
 public:
  virtual ~MessageRule() = default;
  // The rule begins during a run. `earlier` = pushes of each worker that belong to steps of the
  // previous rule and are not settled. Each of them is an update of its own. The earlier messages
  // of its step were already answered without waiting, so the rest must be, too; otherwise messages
  // of one step would be combined with different steps of the other workers.
  void begin_midway(std::vector<int> earlier) { earlier_ = std::move(earlier); }
  // Pushes in the update to which a push of the worker belongs.
  int pushes_per_update(int worker) const { return is_earlier(worker) ? 1 : pushes(); }
  // A push of the worker has been applied or dropped, at `now`.
  void settle(int worker, double now) {
    if (is_earlier(worker)) --earlier_[at(worker)];
    advance_clock(worker, now);
  }
  // `version` updates have been made.
  virtual void begin_round(std::int64_t /*version*/) {}
  // Whether the worker waits for the update that contains its push.
  virtual bool pusher_waits() const { return true; }
  // Whether a push that was computed on version `read` is dropped at version `version`.
  virtual bool drops(std::int64_t /*read*/, std::int64_t /*version*/) const { return false; }
  // Whether the worker may pull directly after its push has been applied.
  virtual bool may_pull(int /*worker*/) { return true; }
  // Whether the worker may pull after it had to wait.
  virtual bool may_go_on(int /*worker*/) const { return true; }

 private:
  virtual int pushes() const { return 1; }
  virtual void advance_clock(int /*worker*/, double /*now*/) {}
  bool is_earlier(int worker) const { return !earlier_.empty() && earlier_[at(worker)] > 0; }

  std::vector<int> earlier_;  // by worker
};

// A rule: makes the MessageRule of one message for so many PsSystem::workers.
using PsRule = std::function<std::unique_ptr<MessageRule>(int workers)>;

PsRule asynchronous();
// `backup`: number of ranks that an update does not wait for.
PsRule bulk_synchronous(int ranks, int backup = 0);
// Each update is made from `drawn` workers, drawn anew for every update (McMahan et al. 2017); it
// does not wait for `backup` of them.
PsRule sampled_synchronous(int drawn, int backup, std::uint64_t seed);
// About `splitting` updates in a round of all ranks.
PsRule softsync(int ranks, int splitting);
// `highest`: largest value of an adaptive bound; 0 = the bound is fixed.
PsRule stale_synchronous(int bound, int highest = 0);

// Throws ConfigError when the options do not fit so many ranks.
PsRule consistency_rule(const ParameterServerOptions& options, int ranks, std::uint64_t seed);
// Number of workers in an update; all workers without the option.
int drawn_workers(const ParameterServerOptions& options, int ranks);

// Time of a worker's last applied push, and the seconds since the push before.
struct PushTimes {
  double last = 0, interval = 0;
};

// DSSP (Zhao et al. 2019, algorithm 2): extra clocks beyond the bound for the fastest worker, 0 to
// `most`. The result minimises its wait for the slowest worker, if both keep their pace.
int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most);

}  // namespace lockstep
