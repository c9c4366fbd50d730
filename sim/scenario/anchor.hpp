// Anchors: measured step times of the user's own that set the scale of compute, host and
// communication costs; everything else stays predicted.
#pragma once

#include <vector>

#include "scenario/points.hpp"
#include "scenario/predict.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// One scale per strategy entry; empty when the scenario has no anchors. An entry with anchors of
// its own is fitted to those, every other entry to all anchors. With one row, device and host time
// share one factor; with rows on several GPU counts communication gets its own; with three rows or
// more, host too. Factors stay within 1/20 .. 20. Throws ConfigError when an anchor fits no entry.
std::vector<CostScale> anchor_scales(const Scenario& scenario, const RunOptions& options);

// The step time a measured row states, from whichever figure it gives; 0 when it gives none that
// concerns time (only memory).
double measured_step_seconds(const Scenario& scenario, const Point& point, const MeasuredRow& row);

// One sigma of a measured step time, as far as an anchor is trusted.
inline constexpr double anchor_error = 0.01;

// The scenario reduced to one strategy entry on one GPU count.
Scenario only(const Scenario& scenario, std::size_t entry, int gpus);

// The entry a row names; the only one when it names none. Throws ConfigError.
std::size_t entry_of(const Scenario& scenario, const MeasuredRow& row);

}  // namespace lockstep
