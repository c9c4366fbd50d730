// Accuracy of every point of a scenario: its updates are simulated in full, and several seeds learn
// in their order, each in a process of its own. No LibTorch in here.
#pragma once

#include <cstddef>
#include <functional>

#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

struct StudyOptions {
  int workers = 0;  // replays at a time; 0 = one per core
  std::function<void(std::size_t done, std::size_t all)> progress{};
};

// Fills Prediction::accuracy of the points that have one; `scenario` must have `convergence`. What a
// replay found is kept in $XDG_CACHE_HOME/lockstep/replays (or ~/.cache/...): a study that was
// interrupted goes on, and the same question is answered at once. Without the measuring half, a
// warning says what is missing. Throws ConfigError for data or a model that cannot be used.
void add_accuracy(const Scenario& scenario, ResultRecord& record, const StudyOptions& options = {});

}  // namespace lockstep
