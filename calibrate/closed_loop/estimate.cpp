#include "closed_loop/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr double start = 2;  // of LibTorch, in each rank

}  // namespace

// Ten times at least, with the plain step beside the observed one.
double layers_seconds(double most, double step) {
  constexpr double steps = 22;
  return start + std::max(most, steps * step);
}

double streams_seconds(double most) {
  constexpr double times = 14;  // copies and updates of some seven sizes
  return start + times * std::min(1.0, most / 10);
}

// Alone, beside compute and (messages) on one core, and again when it was disturbed.
double curves_seconds(std::size_t points, double each) {
  constexpr double times = 2;
  return start + times * each * static_cast<double>(points);
}

double training_seconds(int steps, double step) {
  constexpr int warm_up = 3;
  return start + (warm_up + steps) * step;
}

LoopEstimate estimate_loop(const ClosedLoopOptions& options, std::size_t points,
                           const std::vector<double>& steps) {
  const double slowest = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
  const double layers = options.keep_profile ? 0 : layers_seconds(options.layers_seconds, slowest);
  LoopEstimate estimate;
  if (!options.keep_profile) {
    const double curves = curves_seconds(points, options.collective_seconds);
    estimate.first = layers + streams_seconds(options.layers_seconds) + curves;
    estimate.runs = (options.repetitions - 1) * curves;
  }
  for (const double step : steps) {
    estimate.runs += options.repetitions * (layers + training_seconds(options.steps, step));
  }
  return estimate;
}

std::string about(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::ceil(seconds / 10) * 10);
  if (seconds < 5400) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace lockstep
