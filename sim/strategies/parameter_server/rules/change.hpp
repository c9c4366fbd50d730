// Changes of the consistency rule during a run: phases (Sync-Switch) and a pace controller. At the
// end of each step, a worker calls RuleChanges (worker.cpp), and the servers get the new rule. The
// rules are in rule.hpp.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "strategies/parameter_server/rules/rule.hpp"
#include "strategies/parameter_server/step.hpp"

namespace lockstep {

// The workers' pace as a controller sees it: sums over the latest `window` steps of each worker.
class WorkerPace {
 public:
  WorkerPace(std::size_t workers, int window) : window_(window), latest_(workers) {}

  // Adds a step: its seconds without waits, and the exposed communication that these seconds
  // include.
  void add(int worker, double seconds, double communication);
  // The slowest worker's mean step, divided by the median worker's mean step. If the number of
  // workers is even, the median is the lower of the two middle values. 1 until every worker has
  // made `window` steps.
  double slowest_over_median() const;
  // The share of communication, 0 to 1, in the steps of all workers together. 0 until every worker
  // has made `window` steps.
  double communication_share() const;

 private:
  struct Step {
    double seconds = 0, communication = 0;
  };
  // By worker: the sum of the latest `window` steps. Empty until every worker has made `window`
  // steps.
  std::vector<Step> sums() const;

  int window_;
  std::vector<std::deque<Step>> latest_;  // by worker
};

// Whether all ranks wait for the same update in every step of the run. If so, and if nothing is
// random, one worker can represent all equal ranks (build.hpp: fold_workers()).
bool keeps_step(const PsSystem& system, int ranks);

// Decides when the rule of a run changes. Keeps references to the system, which must outlive it.
class RuleChanges {
 public:
  explicit RuleChanges(const PsSystem& system);

  // The rule of the phase that begins after `steps` steps of all ranks; null = no change. Must be
  // called once after each such step.
  const PsRule* after(int steps);
  // The rule that the controller chooses after a worker's step; null = no change. `seconds` is the
  // step without waits; `communication` is the exposed transfers among these seconds.
  const PsRule* after_step(int worker, double seconds, double communication, double now);

  // How often a controller made the workers asynchronous, and for how many seconds before `now`.
  int stretches() const { return stretches_; }
  double asynchronous_seconds(double now) const { return asynchronous_.until(now); }

 private:
  const PsSystem& system_;
  std::size_t phases_ = 0;  // number of PsSystem::later that have begun
  WorkerPace pace_;
  std::size_t steps_ = 0;  // number of workers' steps that the controller has seen
  PsRule asynchronous_rule_ = lockstep::asynchronous();
  Activity asynchronous_;  // runs while the controller has made the workers asynchronous
  int stretches_ = 0;
};

}  // namespace lockstep
