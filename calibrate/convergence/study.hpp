// Predicts the accuracy of every point of a scenario. The point's updates are simulated to the end
// of the run, and several trainings with different seeds replay their order, each in a separate
// process. Includes no LibTorch.
#pragma once

#include "convergence/replays.hpp"
#include "results/learning.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Fills Prediction::accuracy of the record's predictions that fit into memory. Without the
// measuring half, it only adds a warning. Throws ConfigError for data or a model that cannot be
// used.
// REQUIRES: `scenario` has `convergence`.
void add_accuracy(const Scenario& scenario, ResultRecord& record,
                  const ReplaysOptions& options = {});

// Prepares the training of a scenario that has one point and `convergence`. `replays` must outlive
// the result. Throws ConfigError for points that cannot be simulated.
PreparedTraining prepare_training(const Scenario& scenario, Replays& replays, int workers);

// Throws ConfigError if `scenario`, which has `convergence`, does not state the samples of an
// epoch.
void check_can_learn(const Scenario& scenario);

}  // namespace lockstep
