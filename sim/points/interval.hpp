// How far a prediction of a step may be off. The formula: docs/numbers.md.
#pragma once

#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// One sigma of log(truth / prediction) of the mean step: costs, network and what is lost with every
// doubling of the GPUs.
double prediction_error(const Scenario& scenario, const Point& point, const StrategyResult& result);

// 90 % interval of the step time around the mean of the simulated ones.
Interval step_interval(const Scenario& scenario, const Point& point, const StrategyResult& result);

}  // namespace lockstep
