// How far a prediction of a step may be off. The formula: docs/numbers.md.
#pragma once

#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// What whole runs of other sources tell of the error of a modelled step (lockstep-fit-intervals).
struct ErrorLaw {
  double doubling = 0.04;  // of every doubling of the GPUs, as a random walk
  double servers = 0.33;   // of parameter servers, whose software no model describes
};

// Of the mean step: costs, network, what is lost with every doubling of the GPUs, what the software
// of parameter servers costs, and the draws.
StepError step_error(const Scenario& scenario, const Point& point, const StrategyResult& result,
                     const ErrorLaw& law = {});

double sigma_of(const StepError& error);

// One sigma of log of the ratio of two steps. What both are off by in common cancels: the costs where
// model, precision and device are the same, network and scaling where the platform is. Each is one run
// of its own (fact 136).
double sigma_of_ratio(const StepError& a, const StepError& b, bool same_costs, bool same_network);

// The 90 % interval of what is `value` in the middle.
Interval interval_around(double value, double sigma);

}  // namespace lockstep
