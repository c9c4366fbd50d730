// Estimates the duration of measurements from the start of LibTorch, the repetitions and their
// stopping rules. The constants are numbers of repetitions in the probes (calibrate/probes), and
// times that were measured on two idle cores.
#include "closed_loop/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/network.hpp"
#include "runs/train_options.hpp"

namespace lockstep {

namespace {

constexpr double start = 2;  // seconds to start LibTorch, in each rank

}  // namespace

// At least ten repetitions of a plain and an observed step, and two warm-up steps.
double layers_seconds(double most, double step) {
  constexpr double steps = 22;
  return start + std::max(most, steps * step);
}

double streams_seconds(double most) {
  constexpr double times = 14;  // copies and updates, each of about seven sizes
  return start + times * std::min(1.0, most / 10);
}

// A point takes about two times `each`, because collectives are also measured during compute,
// messages also on one core, and disturbed points again. Even if a call is long, a point needs
// about thirty calls: three and a series as warm-up, seven repetitions, and about as many during
// compute or on one core (probe_collectives()).
double curves_seconds(std::size_t curves, const std::vector<double>& sizes, double each,
                      double rate) {
  constexpr double times = 2, calls = 30;
  double seconds = 0;
  for (const double bytes : sizes) {
    seconds += std::max(times * each, rate > 0 ? calls * bytes / rate : 0);
  }
  return start + seconds * static_cast<double>(curves);
}

double hook_seconds(double most) {
  constexpr double buckets = 10;
  return start + buckets * std::min(2.0, most / 5);
}

double training_seconds(int steps, double step) {
  return start + (TrainOptions{}.warm_up + steps) * step;
}

LoopEstimate estimate_loop(const ClosedLoopOptions& options, std::size_t curves,
                           const std::vector<double>& sizes, const std::vector<double>& steps,
                           std::size_t pausing, std::size_t compressing) {
  const double slowest = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
  const double layers = options.keep_profile ? 0 : layers_seconds(options.layers_seconds, slowest);
  LoopEstimate estimate;
  if (!options.keep_profile) {
    const double measured =
        curves_seconds(curves, sizes, options.collective_seconds, network_rate(options.network));
    estimate.first = layers + streams_seconds(options.layers_seconds) + measured;
    estimate.runs = (options.repetitions - 1) * measured;
  }
  for (const double step : steps) {
    estimate.runs += options.repetitions * (layers + training_seconds(options.steps, step));
  }
  if (!options.keep_profile) {
    const double pauses = 2 * layer_repetitions * layer_pause;
    // The first measurement of layers is that of the first strategy, so it has pauses only if all
    // strategies have.
    estimate.first += pausing == steps.size() ? pauses : 0;
    estimate.runs += options.repetitions * static_cast<double>(pausing) * pauses;
    estimate.runs += options.repetitions * static_cast<double>(compressing) *
                     hook_seconds(options.layers_seconds);
  }
  return estimate;
}

std::string about(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::ceil(seconds / 10) * 10);
  if (seconds < 5400) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace lockstep
