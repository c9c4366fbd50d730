// Phases of a run (Sync-Switch: Li et al. 2021), and a controller similar to the straggler policy
// in section 4 of that paper. The controller decides once in a round, which is as many worker steps
// as there are workers.
#include "strategies/parameter_server/rules/change.hpp"

#include <algorithm>

#include "core/index.hpp"

namespace lockstep {

void WorkerPace::add(int worker, double seconds, double communication) {
  std::deque<Step>& steps = latest_[at(worker)];
  steps.push_back({seconds, communication});
  if (static_cast<int>(steps.size()) > window_) steps.pop_front();
}

std::vector<WorkerPace::Step> WorkerPace::sums() const {
  std::vector<Step> sums;
  for (const std::deque<Step>& steps : latest_) {
    if (static_cast<int>(steps.size()) < window_) return {};
    Step& sum = sums.emplace_back();
    for (const Step& step : steps) {
      sum.seconds += step.seconds;
      sum.communication += step.communication;
    }
  }
  return sums;
}

double WorkerPace::slowest_over_median() const {
  std::vector<double> seconds;
  for (const Step& sum : sums()) seconds.push_back(sum.seconds);
  if (seconds.empty()) return 1;
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[(seconds.size() - 1) / 2];
  return median > 0 ? seconds.back() / median : 1;
}

double WorkerPace::communication_share() const {
  Step all;
  for (const Step& sum : sums()) {
    all.seconds += sum.seconds;
    all.communication += sum.communication;
  }
  return all.seconds > 0 ? all.communication / all.seconds : 0;
}

// Examines the rule of one message: an update must use the pushes of all ranks, and all ranks must
// wait for it. The result is false if later phases or a controller may change the rule.
bool keeps_step(const PsSystem& system, int ranks) {
  if (!system.later.empty() || system.controller) return false;
  const auto message = system.rule(ranks);
  return message->pushes_per_update(0) == ranks && message->pusher_waits();
}

RuleChanges::RuleChanges(const PsSystem& system)
    : system_(system),
      pace_(system.workers.size(), system.controller ? system.controller->window : 0) {}

const PsRule* RuleChanges::after(int steps) {
  if (phases_ == system_.later.size() || steps < system_.later[phases_].from * system_.steps) {
    return nullptr;
  }
  return &system_.later[phases_++].rule;
}

// `seconds` excludes a worker's waits for other workers. With these waits, all workers of a
// synchronous step would take equally long, and the slow worker could not be identified.
const PsRule* RuleChanges::after_step(int worker, double seconds, double communication,
                                      double now) {
  if (!system_.controller) return nullptr;
  pace_.add(worker, seconds, communication);
  if (++steps_ % system_.workers.size() != 0) return nullptr;
  const double apart = pace_.slowest_over_median(), share = pace_.communication_share();
  const PaceController& controller = *system_.controller;
  if (asynchronous_.running > 0) {
    if (!controller.comes_back(apart, share)) return nullptr;
    asynchronous_.change(-1, now);
    return &system_.rule;
  }
  if (!controller.lets_go(apart, share)) return nullptr;
  asynchronous_.change(+1, now);
  ++stretches_;
  return &asynchronous_rule_;
}

}  // namespace lockstep
