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

struct RunOptions {
  int workers = 0;  // child processes at a time; 0 = one per core
  std::function<void(std::size_t done, std::size_t all)> progress;
};

// Simulates every point in a child process of its own. Throws ConfigError, located at the strategy
// entry, when a strategy refuses its options, and std::runtime_error when a simulation failed for a
// reason that is no fault of the input.
std::vector<StrategyResult> simulate(const std::vector<Point>& points,
                                     const RunOptions& options = {});

// The prediction of one point; `scenario` gives dataset and price. Scaling efficiency is left at 1.
Prediction summarise_point(const Scenario& scenario, const Point& point,
                           const StrategyResult& result);

// The whole record: expand (with the anchors' scale, if the scenario has anchors), simulate,
// summarise, suggest what fits where something does not.
ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options = {});

// Optimizer steps of the whole run; 0 when the scenario names no dataset.
double steps_of_run(const Scenario& scenario, const Point& point);

}  // namespace lockstep
