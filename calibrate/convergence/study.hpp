// Accuracy of every point of a scenario: its updates are simulated in full, and several seeds learn
// in their order, each in a process of its own. No LibTorch in here.
#pragma once

#include "convergence/replays.hpp"
#include "results/learning.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Fills Prediction::accuracy of the points that have one; `scenario` must have `convergence`.
// Without the measuring half, a warning names it. Throws ConfigError for data or a model that
// cannot be used.
void add_accuracy(const Scenario& scenario, ResultRecord& record,
                  const ReplaysOptions& options = {});

// A scenario of one point, with `convergence`, ready to be trained. `replays` holds earlier
// trainings, and must outlive the result. Throws ConfigError for points that cannot be simulated.
PreparedTraining prepare_training(const Scenario& scenario, Replays& replays, int workers);

// Throws ConfigError when `scenario`, which has `convergence`, does not say how much is learned
// from.
void check_can_learn(const Scenario& scenario);

}  // namespace lockstep
