// Measured rows of a scenario (`anchor:` and `measured:`) and the points that they belong to. An
// anchor uses such rows to correct predictions; `validate` compares predictions with them.
#pragma once

#include "points/points.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Step seconds that a measured row states: as a step time, a throughput or a total time. 0 if the
// row gives only memory, or only the total time of a run whose number of steps is unknown.
double measured_step_seconds(const Scenario& scenario, const Point& point, const MeasuredRow& row);

// The same value for a caller without a Point. `samples` and `tokens` (0 = the model reads none)
// belong to one optimizer step; `steps` are the optimizer steps of the whole run (0 = unknown).
double measured_step_seconds(const MeasuredRow& row, double samples, double tokens, double steps);

// One sigma of a measured step time, relative: the trust in an anchor.
inline constexpr double anchor_error = 0.01;

// Returns the scenario with a single strategy entry on a single GPU count, without measured rows.
Scenario only(const Scenario& scenario, std::size_t entry, int gpus);

// Index of the entry that a row names. A row without a name means the only entry. Throws
// ConfigError, located at the row, if there are several entries and no name, or no such entry.
std::size_t entry_of(const Scenario& scenario, const MeasuredRow& row);

// Whether the predicted step seconds agree with an anchor's row within 2 %, the tolerance of
// anchors.
// REQUIRES: the row gives a time.
bool meets(const Scenario& scenario, const Point& point, const MeasuredRow& row, double predicted);

// Optimizer steps of the whole run; 0 if the dataset does not determine them (no dataset, only the
// run's time, or tokens for a model that reads none).
double steps_of_run(const Scenario& scenario, const Point& point);

}  // namespace lockstep
