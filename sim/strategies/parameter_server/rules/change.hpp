// What changes the rule during a run: phases (Sync-Switch) and a controller of the pace.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "strategies/parameter_server/rules/rule.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// What a controller of the pace goes by: of each worker its latest steps.
class WorkerPace {
 public:
  WorkerPace(std::size_t workers, int window) : window_(window), latest_(workers) {}

  // A step, and what of it was communication.
  void add(int worker, double seconds, double communication);
  // Of the means; the lower one of two medians. 1 until every worker has done so many steps.
  double slowest_over_median() const;
  // Of all of them together. 0 until every worker has done so many steps.
  double communication_share() const;

 private:
  struct Step {
    double seconds = 0, communication = 0;
  };
  double sum(std::size_t worker, double Step::*part) const;
  bool complete() const;

  int window_;
  std::vector<std::deque<Step>> latest_;  // by worker
};

class RuleChanges {
 public:
  explicit RuleChanges(const PsSystem& system);

  // The rule that begins when so many steps of the run are over, or when a worker ends a step of so
  // many seconds that waited for nobody, some of them communication. Null: the present one stays.
  const PsRule* after(int steps);
  const PsRule* after_step(int worker, double seconds, double communication, double now);

  // In which a controller let the workers go on by themselves.
  int stretches() const { return stretches_; }
  double asynchronous_seconds(double now) const {
    return asynchronous_seconds_ + (asynchronous_ ? now - since_ : 0);
  }

 private:
  const PsSystem& system_;
  std::size_t phases_ = 0;  // begun
  WorkerPace pace_;
  std::size_t steps_ = 0;  // that the controller has seen
  PsRule alone_ = lockstep::asynchronous();
  bool asynchronous_ = false;  // because of the controller
  double since_ = 0, asynchronous_seconds_ = 0;
  int stretches_ = 0;
};

// `rule` for a message of which each worker has yet to settle so many pushes of steps that began
// before it. Each of those is an update of its own: other messages of its step were answered
// without waiting, and a worker that waited for all workers in some messages of a step only would
// wait for other steps of theirs in each.
std::unique_ptr<MessageRule> beginning_midway(std::unique_ptr<MessageRule> rule,
                                              std::vector<int> earlier);

}  // namespace lockstep
