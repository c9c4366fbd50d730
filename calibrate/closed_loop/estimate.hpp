// Estimates of measuring times. Call them before anything is measured, to tell the user.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"

namespace lockstep {

// Durations of measurements on two otherwise idle cores. `step`: seconds of a step.
double layers_seconds(double most, double step);  // of one model and batch: `most` for it
double streams_seconds(double most);              // copies and updates by size
// For so many collectives at each of these sizes (bytes): `each` for a point, over links of `rate`
// bytes/s (0: loopback).
double curves_seconds(std::size_t curves, const std::vector<double>& sizes, double each,
                      double rate);
double hook_seconds(double most);
double training_seconds(int steps, double step);

// Seconds of a closed loop.
struct LoopEstimate {
  double first = 0;  // layers, copies, updates and the first collectives; 0 with a kept profile
  double runs = 0;   // all runs, with the layers before each and further repetitions' collectives
  double total() const { return first + runs; }
};
// Layers are measured some so many times, and where ranks wait before each step after pauses of so
// many seconds.
constexpr int layer_repetitions = 40;
constexpr double layer_pause = 0.1;

// `curves`: collectives to measure, `sizes` of each. `steps`: modeled seconds of a step of each
// strategy; `pausing`: how many of these have their layers measured after pauses; `compressing`:
// the work of a communication hook beside them.
LoopEstimate estimate_loop(const ClosedLoopOptions& options, std::size_t curves,
                           const std::vector<double>& sizes, const std::vector<double>& steps,
                           std::size_t pausing, std::size_t compressing);

std::string about(double seconds);  // "50 s", "4 min", "2.5 h"

}  // namespace lockstep
