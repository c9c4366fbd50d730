// Runs the points of a scenario and turns what the strategies report into Predictions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "results/record.hpp"
#include "scenario/points.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

struct RunProgress {
  std::size_t done = 0, all = 0;  // points
  std::string point{};            // the one that runs longest,
  double fraction = 0;            // and how far it is
};

struct RunOptions {
  int workers = 0;  // child processes at a time; 0 = one per core
  std::function<void(const RunProgress&)> progress{};
};

// Of one point: what its strategy found, or why a simulation failed that is no fault of the input.
struct Outcome {
  StrategyResult result;
  std::optional<std::string> failure;
};

// Simulates every point in a child process of its own. Throws ConfigError, located at the strategy
// entry, when a strategy refuses its options.
std::vector<Outcome> simulate_each(const std::vector<Point>& points,
                                   const RunOptions& options = {});

// The same where every point counts: throws std::runtime_error when one failed.
std::vector<StrategyResult> simulate(const std::vector<Point>& points,
                                     const RunOptions& options = {});

// The prediction of one point; `scenario` gives dataset and price. Scaling efficiency is left at 1.
// Throws std::runtime_error when it contradicts itself (results/invariants.hpp).
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

// The whole record: expand (with the anchors' scale, if the scenario has anchors), simulate,
// summarise, suggest what fits where something does not.
ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options = {});

// Optimizer steps of the whole run; 0 when the scenario names no dataset.
double steps_of_run(const Scenario& scenario, const Point& point);

}  // namespace lockstep
