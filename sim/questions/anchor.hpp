// Anchors: step times measured by the user that set the scale of compute, host and communication
// costs. All other parts of a prediction stay modelled, so that one measured step improves the
// predictions for all other GPU counts and strategies.
#pragma once

#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Returns the factors of each strategy entry; empty if the scenario has no anchors. An entry with
// anchors of its own is fitted to them, any other entry to all anchors.
//
//     rows                          factors that are fitted
//     1, or one GPU count only      device (also applied to host)
//     2, on several GPU counts      device, communication
//     3 or more, on several         device, communication, host
//
// Factors stay within 1/20 to 20. Throws ConfigError if an anchor fits no entry or gives no time,
// and std::runtime_error if a simulation fails.
std::vector<CostScale> anchor_scales(const Scenario& scenario, const RunOptions& options);

}  // namespace lockstep
