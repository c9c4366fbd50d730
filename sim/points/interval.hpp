// The error of a predicted step, in parts that combine into an interval. docs/numbers.md has the
// formulas; `recommend` uses sigma_of_ratio() to compare candidates.
#pragma once

#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Relative errors of modelled steps, one sigma. Fitted by lockstep-fit-intervals to public
// measurements of whole training runs.
struct ErrorLaw {
  double doubling = 0.04;  // per doubling of the number of GPUs, as a random walk
  double servers = 0.33;   // of parameter servers: no model describes their software
};

// The parts of the relative error of the mean step: compute costs, network, scaling to more GPUs,
// software of parameter servers, random draws. Each part is one sigma.
StepError step_error(const Scenario& scenario, const Point& point, const StrategyResult& result,
                     const ErrorLaw& law = {});

// All parts together: one sigma, relative to the step.
double sigma_of(const StepError& error);

// One sigma of the logarithm of the ratio of two steps. Errors that both steps have in common
// cancel. `same_costs`: both have the same model, precision and device. `same_network`: both run on
// the same platform. Each step is also a run of its own, with the spread of repeated runs (fact
// 136).
double sigma_of_ratio(const StepError& a, const StepError& b, bool same_costs, bool same_network);

// The 90 % interval around the median `value`.
Interval interval_around(double value, double sigma);

}  // namespace lockstep
