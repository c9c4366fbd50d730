#include "results/staleness.hpp"

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

}  // namespace lockstep
