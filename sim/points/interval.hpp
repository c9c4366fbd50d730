// How far a prediction of a step may be off. The formula: docs/numbers.md.
#pragma once

#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Of the mean step: costs, network, what is lost with every doubling of the GPUs, and the draws.
StepError step_error(const Scenario& scenario, const Point& point, const StrategyResult& result);

double sigma_of(const StepError& error);

// One sigma of log of the ratio of two steps. What both are off by in common cancels: the costs where
// model, precision and device are the same, network and scaling where the platform is. Each is one run
// of its own (fact 136).
double sigma_of_ratio(const StepError& a, const StepError& b, bool same_costs, bool same_network);

// The 90 % interval of what is `value` in the middle.
Interval interval_around(double value, double sigma);

}  // namespace lockstep
