// Computes the interval of a median between two order statistics from the binomial distribution,
// and applies the stopping rule to it. No distribution of the samples is assumed.
#include "launch/stopping.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/statistics.hpp"

namespace lockstep {

namespace {

// Largest k with P(fewer than k of n samples lie below the median) <= 2.5 %; 0 if there is none.
int lower_rank(int n) {
  double cumulative = 0;
  int k = 0;
  for (; k < n; ++k) {
    const double log_choose = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
    cumulative += std::exp(log_choose - n * std::log(2.0));
    if (cumulative > 0.025) break;
  }
  return k;
}

}  // namespace

MedianInterval median_interval(const std::vector<double>& samples) {
  const int n = static_cast<int>(samples.size());
  const int k = lower_rank(n);
  if (k == 0) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {-infinity, infinity};
  }
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  return {sorted[static_cast<std::size_t>(k - 1)], sorted[static_cast<std::size_t>(n - k)]};
}

bool enough(const std::vector<double>& samples, const StoppingRule& rule) {
  const int n = static_cast<int>(samples.size());
  if (n >= rule.maximum) return true;
  if (n < rule.minimum) return false;
  const MedianInterval interval = median_interval(samples);
  return interval.high - interval.low <= rule.relative_width * std::abs(median(samples));
}

}  // namespace lockstep
