// Measured rows of a scenario and the points they belong to.
#pragma once

#include "points/points.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The step time a measured row states, from whichever figure it gives; 0 when it gives none that
// concerns time (only memory).
double measured_step_seconds(const Scenario& scenario, const Point& point, const MeasuredRow& row);

// The same of a point that is known by its figures: samples and tokens of one step (0 = the model
// has none), steps of the whole run (0 = not known).
double measured_step_seconds(const MeasuredRow& row, double samples, double tokens, double steps);

// One sigma of a measured step time, as far as an anchor is trusted.
inline constexpr double anchor_error = 0.01;

// The scenario reduced to one strategy entry on one GPU count.
Scenario only(const Scenario& scenario, std::size_t entry, int gpus);

// The entry a row names; the only one when it names none. Throws ConfigError.
std::size_t entry_of(const Scenario& scenario, const MeasuredRow& row);

// Whether a prediction agrees with an anchor's row as closely as an anchor is met.
bool meets(const Scenario& scenario, const Point& point, const MeasuredRow& row, double predicted);

// Optimizer steps of the whole run; 0 when the scenario names no dataset, or only a time.
double steps_of_run(const Scenario& scenario, const Point& point);

}  // namespace lockstep
