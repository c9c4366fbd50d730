// The seam between a server and its rule of consistency: what a server asks before it updates and
// before it answers. Each rule is a file beside this one; change.hpp changes rules during a run.
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
// rank, workers from 0. By default asynchronous: each push is an update, nobody waits (fact 69).
class MessageRule {
 public:
  virtual ~MessageRule() = default;
  // The rule begins when each worker has yet to settle so many pushes of steps that began before.
  // Each of those is an update of its own: other messages of its step were answered without waiting,
  // and a worker that waited for all workers in some messages of a step only would wait for other
  // steps of theirs in each.
  void begin_midway(std::vector<int> earlier) { earlier_ = std::move(earlier); }
  // Pushes in the update to which a push of the worker belongs.
  int pushes_per_update(int worker) const { return is_earlier(worker) ? 1 : pushes(); }
  // A push of the worker has been applied or dropped, at `now`.
  void settle(int worker, double now) {
    if (is_earlier(worker)) --earlier_[at(worker)];
    advance_clock(worker, now);
  }
  // So many updates have been made, from none on.
  virtual void begin_round(std::int64_t /*version*/) {}
  // Whether the worker waits for the update that its push is part of.
  virtual bool pusher_waits() const { return true; }
  // Whether a push is dropped that was computed on version `read`, now that there is `version`.
  virtual bool drops(std::int64_t /*read*/, std::int64_t /*version*/) const { return false; }
  // Whether the worker may pull when its push has just been applied.
  virtual bool may_pull(int /*worker*/) { return true; }
  // Whether the worker may pull after it had to wait.
  virtual bool may_go_on(int /*worker*/) const { return true; }

 private:
  virtual int pushes() const { return 1; }
  virtual void advance_clock(int /*worker*/, double /*now*/) {}
  bool is_earlier(int worker) const { return !earlier_.empty() && earlier_[at(worker)] > 0; }

  std::vector<int> earlier_;  // by worker
};

// A rule: makes what keeps each message consistent among so many PsSystem::workers.
using PsRule = std::function<std::unique_ptr<MessageRule>(int workers)>;

PsRule asynchronous();
// `backup`: an update does not wait for so many ranks.
PsRule bulk_synchronous(int ranks, int backup = 0);
// Each update is made from `drawn` of the workers, which differ from one to the next (McMahan et al. 2017);
// it does not wait for `backup` of them.
PsRule sampled_synchronous(int drawn, int backup, std::uint64_t seed);
// About `splitting` updates in a round of all ranks.
PsRule softsync(int ranks, int splitting);
// `highest`: up to which the bound adapts; 0 = it is fixed.
PsRule stale_synchronous(int bound, int highest = 0);

// Throws ConfigError when the options do not fit so many ranks.
PsRule consistency_rule(const ParameterServerOptions& options, int ranks, std::uint64_t seed);
// Workers of an update; all without the option.
int drawn_workers(const ParameterServerOptions& options, int ranks);

// When a worker's last push was applied, and how long it had taken since the one before.
struct PushTimes {
  double last = 0, interval = 0;
};

// DSSP (Zhao et al. 2019, algorithm 2): how many clocks beyond the bound the fastest worker should
// go, 0 to `most`, so that it then waits least for the slowest, if both keep their pace.
int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most);

}  // namespace lockstep
