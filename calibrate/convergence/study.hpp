// Accuracy of every point of a scenario: its updates are simulated in full, and several seeds learn
// in their order, each in a process of its own. No LibTorch in here.
#pragma once

#include "convergence/replays.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Fills Prediction::accuracy of the points that have one; `scenario` must have `convergence`. Without the measuring half, a
// warning says what is missing. Throws ConfigError for data or a model that cannot be used.
void add_accuracy(const Scenario& scenario, ResultRecord& record,
                  const ReplaysOptions& options = {});

}  // namespace lockstep
