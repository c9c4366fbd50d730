// Estimates the duration of measurements. The closed loop and the acceptance print the estimate
// before they measure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"

namespace lockstep {

// Seconds of measurements on two otherwise idle cores. `step`: seconds of a step.
double layers_seconds(double most, double step);  // one model and batch, with the time limit `most`
double streams_seconds(double most);              // copies and updates by size
// For `curves` collectives at each of these sizes (bytes), with the time limit `each` for a point,
// over links of `rate` bytes/s (0 = loopback).
double curves_seconds(std::size_t curves, const std::vector<double>& sizes, double each,
                      double rate);
double hook_seconds(double most);
double training_seconds(int steps, double step);

// Seconds of a closed loop.
struct LoopEstimate {
  double first = 0;  // layers, copies, updates and the first collectives; 0 with a kept profile
  // All runs, with the layers before each and the collectives of later repetitions.
  double runs = 0;
  double total() const { return first + runs; }
};
// Largest number of repetitions of layers, and seconds of the pauses between steps if ranks wait
// before each step.
constexpr int layer_repetitions = 40;
constexpr double layer_pause = 0.1;

// `curves`: number of collectives to measure, each at all `sizes`. `steps`: modelled seconds of a
// step by strategy. `pausing`: number of strategies whose layers are measured with pauses.
// `compressing`: number of strategies with a communication hook that is measured.
LoopEstimate estimate_loop(const ClosedLoopOptions& options, std::size_t curves,
                           const std::vector<double>& sizes, const std::vector<double>& steps,
                           std::size_t pausing, std::size_t compressing);

std::string about(double seconds);  // rounded, for example "50 s", "4 min", "2.5 h"

}  // namespace lockstep
