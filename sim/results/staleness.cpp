// Means and percentiles of histograms: staleness of updates, and steps of workers. A percentile is
// the smallest value whose cumulative share reaches the percentage.
#include "results/staleness.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep {

Staleness staleness_of(std::map<std::int64_t, std::int64_t> histogram) {
  Staleness result;
  double count = 0, sum = 0;
  for (const auto& [updates, pushes] : histogram) {
    count += static_cast<double>(pushes);
    sum += static_cast<double>(updates) * static_cast<double>(pushes);
  }
  if (count == 0) return result;
  result.mean = sum / count;
  // The smallest staleness that at least the share q of the pushes does not exceed.
  const auto quantile_of = [&](double q) {
    double seen = 0;
    for (const auto& [updates, pushes] : histogram) {
      seen += static_cast<double>(pushes);
      if (seen >= q * count) return static_cast<double>(updates);
    }
    return static_cast<double>(histogram.rbegin()->first);
  };
  result.p50 = quantile_of(0.5);
  result.p99 = quantile_of(0.99);
  result.max = static_cast<double>(histogram.rbegin()->first);
  result.histogram = std::move(histogram);
  return result;
}

std::vector<std::string> staleness_cells(const Staleness& s) {
  return {fmt::format("{:.2f}", s.mean), fmt::format("{:.0f}", s.p50), fmt::format("{:.0f}", s.p99),
          fmt::format("{:.0f}", s.max)};
}

WorkerSteps worker_steps_of(std::map<std::int64_t, std::int64_t> histogram) {
  WorkerSteps result;
  double all = 0;
  for (const auto& [steps, workers] : histogram) {
    all += static_cast<double>(steps) * static_cast<double>(workers);
  }
  if (all > 0) {
    result.least = static_cast<double>(histogram.begin()->first) / all;
    result.most = static_cast<double>(histogram.rbegin()->first) / all;
  }
  result.histogram = std::move(histogram);
  return result;
}

std::string uneven_workers(const WorkerSteps& steps) {
  double workers = 0, all = 0;
  for (const auto& [made, by] : steps.histogram) {
    workers += static_cast<double>(by);
    all += static_cast<double>(made) * static_cast<double>(by);
  }
  constexpr double starved = 0.25;  // of an even share
  const double even = workers > 0 ? all / workers : 0;
  if (all <= 0 || steps.least * all >= starved * even) return "";
  // Workers that make at least half of an even share, and their steps.
  double busy = 0, done = 0;
  for (const auto& [made, by] : steps.histogram) {
    if (static_cast<double>(made) < 0.5 * even) continue;
    busy += static_cast<double>(by);
    done += static_cast<double>(made) * static_cast<double>(by);
  }
  return fmt::format("{:.0f} of {:.0f} workers do {:.0f} % of the steps", busy, workers,
                     100 * done / all);
}

}  // namespace lockstep
