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
  double doubling = 0.04;  // grows with the square root of the GPU count's doublings
  double servers = 0.33;   // of parameter servers: no model describes their software
};

// The parts of the relative error of the mean step: compute costs, network, scaling to more GPUs,
// software of parameter servers, random draws. Each part is one sigma. If the scenario's anchor has
// a row for this point and the prediction meets it, only random draws and the error of a
// measurement remain.
StepError step_error(const Scenario& scenario, const Point& point, const StrategyResult& result,
                     const ErrorLaw& law = {});

// All parts together: one sigma, relative to the step.
double sigma_of(const StepError& error);

// One sigma of the logarithm of the ratio of two steps. Errors that both steps have in common
// cancel: compute errors with `same_costs` (the same model, precision and device), and errors of
// network, scaling and servers with `same_network` (the same platform). The spread between repeated
// runs of one training (fact 136) is added for both steps.
double sigma_of_ratio(const StepError& a, const StepError& b, bool same_costs, bool same_network);

// The 90 % interval around the median `value`.
Interval interval_around(double value, double sigma);

}  // namespace lockstep
