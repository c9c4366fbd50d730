// Changes of the rule during a run: phases (Sync-Switch) and a controller of the pace. Used by the
// run; rules themselves are in rule.hpp.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "strategies/parameter_server/rules/rule.hpp"
#include "strategies/parameter_server/step.hpp"

namespace lockstep {

// The pace that a controller goes by: the latest steps of each worker.
class WorkerPace {
 public:
  WorkerPace(std::size_t workers, int window) : window_(window), latest_(workers) {}

  // Adds a step and its seconds of communication.
  void add(int worker, double seconds, double communication);
  // The largest mean over their median, the lower one of two. 1 until every worker has done so many
  // steps.
  double slowest_over_median() const;
  // Over all workers together. 0 until every worker has done so many steps.
  double communication_share() const;

 private:
  struct Step {
    double seconds = 0, communication = 0;
  };
  // By worker; empty until every worker has done so many steps.
  std::vector<Step> sums() const;

  int window_;
  std::vector<std::deque<Step>> latest_;  // by worker
};

// Whether all ranks wait for the same update in every step of the run.
bool keeps_step(const PsSystem& system, int ranks);

class RuleChanges {
 public:
  explicit RuleChanges(const PsSystem& system);

  // The rule that begins after so many steps of the run, or after a worker's step of so many
  // seconds without waits, `communication` of them transfers. Null: the rule stays.
  const PsRule* after(int steps);
  const PsRule* after_step(int worker, double seconds, double communication, double now);

  // In which a controller let the workers go on by themselves.
  int stretches() const { return stretches_; }
  double asynchronous_seconds(double now) const { return asynchronous_.until(now); }

 private:
  const PsSystem& system_;
  std::size_t phases_ = 0;  // begun
  WorkerPace pace_;
  std::size_t steps_ = 0;  // that the controller has seen
  PsRule asynchronous_rule_ = lockstep::asynchronous();
  Activity asynchronous_;  // because of the controller
  int stretches_ = 0;
};

}  // namespace lockstep
