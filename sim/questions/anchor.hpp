// Anchors: step times measured by the user, from which factors for compute, host and communication
// costs follow. Everything else in a prediction stays modelled, so one measured step improves the
// predictions for all other GPU counts and strategies.
#pragma once

#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Returns the factors of each strategy entry; empty if the scenario has no anchors. An entry that
// has anchors is fitted to them; every other entry is fitted to all anchors of the scenario.
//
//     rows                          factors that are fitted
//     1, or one GPU count only      device (also applied to host)
//     2, on several GPU counts      device (also applied to host), communication
//     3 or more, on several         device, communication, host
//
// Factors are limited to 1/20 to 20. Throws ConfigError if an anchor belongs to no entry or gives
// no time, and std::runtime_error if a simulation fails.
std::vector<CostScale> anchor_scales(const Scenario& scenario, const RunOptions& options);

}  // namespace lockstep
