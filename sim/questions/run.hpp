// `run`: the record of a whole scenario.
#pragma once

#include "points/simulate.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The whole record: expand (with the anchors' scale, if the scenario has anchors), simulate,
// summarise, suggest what fits where something does not.
ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options = {});

}  // namespace lockstep
