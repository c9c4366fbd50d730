#include "closed_loop/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

// Figures of the measuring half on two cores that are not busy otherwise: LibTorch's start in each
// rank; a collective is timed alone, beside compute and (messages) on one core, and again when it
// was disturbed; layers are timed ten times at least, with the plain step beside the observed one.
LoopEstimate estimate_loop(const ClosedLoopOptions& options, std::size_t points,
                           const std::vector<double>& steps) {
  constexpr double start = 2;
  constexpr double times_per_point = 2;
  constexpr double layer_steps = 22;
  constexpr double stream_times = 14;  // copies and updates of some seven sizes
  const double slowest = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
  const double layers = start + std::max(options.layers_seconds, layer_steps * slowest);
  LoopEstimate estimate;
  if (!options.keep_profile) {
    const double streams = start + stream_times * std::min(1.0, options.layers_seconds / 10);
    estimate.first = layers + streams + start +
                     times_per_point * options.collective_seconds * static_cast<double>(points);
  }
  constexpr int warm_up = 3;
  for (const double step : steps) {
    estimate.runs += options.repetitions * ((options.keep_profile ? 0 : layers) + start +
                                            (warm_up + options.steps) * step);
  }
  return estimate;
}

std::string about(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::ceil(seconds / 10) * 10);
  if (seconds < 5400) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace lockstep
