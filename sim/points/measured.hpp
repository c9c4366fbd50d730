// Measured rows of a scenario (`anchor:` and `measured:`) and the points that they belong to. An
// anchor uses such rows to correct predictions; `validate` compares predictions with them.
#pragma once

#include "points/points.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Step seconds that a measured row states: as a step time, a throughput or a total time. 0 if the
// row gives no time, only memory.
double measured_step_seconds(const Scenario& scenario, const Point& point, const MeasuredRow& row);

// Computes the same if there is no Point, only numbers: samples and tokens of one optimizer step (0
// tokens = the model reads none), optimizer steps of the whole run (0 = unknown).
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
bool meets(const Scenario& scenario, const Point& point, const MeasuredRow& row, double predicted);

// Optimizer steps of the whole run; 0 if the scenario has no dataset, or gives only the run's time.
double steps_of_run(const Scenario& scenario, const Point& point);

}  // namespace lockstep
