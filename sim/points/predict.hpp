// From simulated steps to the figures a user reads. Formulas: docs/numbers.md.
#pragma once

#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The prediction of one point; `scenario` gives dataset and price. Scaling efficiency is left at 1.
// Throws std::runtime_error when it contradicts itself (broken_invariant()).
Prediction summarise_point(const Scenario& scenario, const Point& point,
                           const StrategyResult& result);

// The points that have an answer, and why the others have none.
struct Predicted {
  std::vector<Point> points;
  std::vector<StrategyResult> results;
  std::vector<Prediction> predictions;
  std::vector<Failure> failures;
};
Predicted predict_each(const Scenario& scenario, std::vector<Point> points,
                       const RunOptions& options = {});

}  // namespace lockstep
