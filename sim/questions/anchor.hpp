// Anchors: measured step times of the user's own that set the scale of compute, host and
// communication costs; everything else stays predicted.
#pragma once

#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// One scale per strategy entry; empty when the scenario has no anchors. An entry with anchors of
// its own is fitted to those, every other entry to all anchors. With one row, device and host time
// share one factor; with rows on several GPU counts communication gets its own; with three rows or
// more, host too. Factors stay within 1/20 .. 20. Throws ConfigError when an anchor fits no entry.
std::vector<CostScale> anchor_scales(const Scenario& scenario, const RunOptions& options);

}  // namespace lockstep
