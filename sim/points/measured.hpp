// Measured rows of a scenario (`anchor:` and `measured:`) and the points that they belong to. An
// anchor corrects predictions by them; `validate` compares predictions with them.
#pragma once

#include "points/points.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Step seconds that a measured row states: directly, or by a throughput or the total time. 0 if the
// row gives no time, only memory.
double measured_step_seconds(const Scenario& scenario, const Point& point, const MeasuredRow& row);

// As above, for a point that is known only by its figures: samples and tokens of one optimizer step
// (0 = the model reads none), optimizer steps of the whole run (0 = unknown).
double measured_step_seconds(const MeasuredRow& row, double samples, double tokens, double steps);

// One sigma of a measured step time, relative: so far an anchor is trusted.
inline constexpr double anchor_error = 0.01;

// Returns the scenario with a single strategy entry on a single GPU count, without measured rows.
Scenario only(const Scenario& scenario, std::size_t entry, int gpus);

// Index of the entry that a row names; 0 if the row names none and there is only one. Throws
// ConfigError, located at the row, otherwise.
std::size_t entry_of(const Scenario& scenario, const MeasuredRow& row);

// Whether the step seconds `predicted` agree with an anchor's row within 2 %, the tolerance of
// anchors.
bool meets(const Scenario& scenario, const Point& point, const MeasuredRow& row, double predicted);

// Optimizer steps of the whole run; 0 if the scenario has no dataset, or gives only the run's time.
double steps_of_run(const Scenario& scenario, const Point& point);

}  // namespace lockstep
