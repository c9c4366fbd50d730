// Predictions: the values that a user reads, computed from simulated steps. docs/numbers.md has the
// formula of each value.
#pragma once

#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Returns the prediction of one point. `scenario` adds dataset, anchor, energy, failures and
// checkpoints; the price comes from the point's machine. `scaling_efficiency` stays 1, because it
// compares several points. Throws std::runtime_error if the values contradict each other
// (broken_invariant()), and ConfigError if the strategy refuses a job that the run with failures
// needs.
Prediction summarise_point(const Scenario& scenario, const Point& point,
                           const StrategyResult& result);

// The points that have an answer, and the reasons why the others have none. `points`, `results` and
// `predictions` have equal length and order.
struct Predicted {
  std::vector<Point> points;
  std::vector<StrategyResult> results;
  std::vector<Prediction> predictions;
  std::vector<Failure> failures;
};
// Simulates and summarises all points. A point whose simulation crashes or contradicts itself
// becomes a failure. Throws ConfigError if a strategy refuses its options.
Predicted predict_each(const Scenario& scenario, std::vector<Point> points,
                       const RunOptions& options = {});

}  // namespace lockstep
