// Order statistics, means and their intervals. Means of pairs are enumerated, which takes n^2 / 2
// numbers; samples should therefore have at most some thousand values.
#include "core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lockstep {

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

double quantile(const std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[below + 1] - sorted[below]);
}

namespace {

// (values[i] + values[j]) / 2 for all i <= j, sorted (Walsh averages).
std::vector<double> pair_means(const std::vector<double>& values) {
  std::vector<double> means;
  means.reserve(values.size() * (values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  return means;
}

// Number of values W = 0, 1, ... with P(signed-rank sum <= W) <= 2.5 %, for a sample of n values.
// Each rank 1 to n is part of the sum with probability 1/2; the distribution is built up rank by
// rank.
std::size_t unlikely_rank_sums(std::size_t n) {
  std::vector<double> share(n * (n + 1) / 2 + 1, 0);  // probability of each sum
  share[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    for (std::size_t sum = share.size(); sum-- > 0;) {
      share[sum] = (share[sum] + (sum >= rank ? share[sum - rank] : 0)) / 2;
    }
  }
  std::size_t count = 0;
  for (double cumulative = share[0]; cumulative <= 0.025; cumulative += share[count]) ++count;
  return count;
}

}  // namespace

double pseudo_median(const std::vector<double>& values) {
  return median(pair_means(values));
}

std::optional<ConfidenceBounds> pseudo_median_bounds(const std::vector<double>& values) {
  const std::size_t beyond = values.empty() ? 0 : unlikely_rank_sums(values.size());
  if (beyond == 0) return std::nullopt;
  const std::vector<double> means = pair_means(values);
  return ConfidenceBounds{means[beyond - 1], means[means.size() - beyond]};
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::size_t warm_up(const std::vector<double>& series) {
  constexpr std::size_t five = 5;
  // MSER: for each possible cut, compute the squared standard error of the mean of values[cut..],
  // which is sum((x - mean)^2) / count^2. The loop extends the sums from the end to the beginning,
  // so that all cuts together take linear time.
  std::size_t cut = 0;
  double least = std::numeric_limits<double>::infinity(), sum = 0, squares = 0;
  const double centre = mean(series);  // subtracted, so that the squares stay small
  for (std::size_t begin = series.size(); begin-- > 0;) {
    const double value = series[begin] - centre;
    sum += value;
    squares += value * value;
    if (begin > series.size() / 2 || begin % five != 0) continue;
    const double count = static_cast<double>(series.size() - begin);
    const double error = std::max(0.0, squares - sum * sum / count) / (count * count);  // squared
    // Among cuts with equal errors, take the shortest warm-up.
    if (error <= least) {
      least = error;
      cut = begin;
    }
  }
  // The warm-up must also differ from the rest: their means must differ by more than five standard
  // errors of a mean of as many values as the warm-up has.
  const auto end = series.begin() + static_cast<std::ptrdiff_t>(cut);
  const std::vector<double> first(series.begin(), end), rest(end, series.end());
  if (first.empty()) return 0;
  const double doubt = standard_deviation(rest) / std::sqrt(static_cast<double>(first.size()));
  const double rounding = 1e-9 * mean(rest);
  return std::abs(mean(first) - mean(rest)) > 5 * doubt + rounding ? cut : 0;
}

}  // namespace lockstep
