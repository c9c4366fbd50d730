// Small statistics of a sample, for logs, measurements and series of steps. All functions but
// warm_up() accept values in any order. Results have the unit of the values.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep {

double mean(const std::vector<double>& values);  // 0 for an empty sample
// 0 for an empty sample.
double median(const std::vector<double>& values);
// Linear interpolation between order statistics (type 7, as numpy's default); q is limited to [0,
// 1]. 0 for an empty sample.
double quantile(const std::vector<double>& values, double q);
// Pseudo-median (Hodges and Lehmann 1963): the median of the means of all pairs, including pairs of
// a value with itself. It is nearly as precise as a mean, and robust as long as fewer than three in
// ten values are outliers. 0 for an empty sample.
double pseudo_median(const std::vector<double>& values);
// An interval, both ends included.
struct ConfidenceBounds {
  double low = 0, high = 0;
};
// The 95 % confidence interval of the centre of a symmetric distribution, from independent values.
// The bounds are two of the means of pairs, which Wilcoxon's signed ranks select (exact; Hollander
// and Wolfe, Nonparametric Statistical Methods, 3.3). Nothing for fewer than six values.
std::optional<ConfidenceBounds> pseudo_median_bounds(const std::vector<double>& values);
// Number of values at the beginning of a series that belong to its warm-up. The warm-up is the
// prefix whose removal minimises the standard error of the mean of the rest (MSER: White, Cobb,
// Spratt, A comparison of five steady-state truncation heuristics for simulation, WSC 2000). Its
// length is a multiple of five and at most half of all values. The result is 0 if the means of
// prefix and rest differ by less than five standard errors of a mean of as many values as the
// prefix has, because the prefix may then be noise.
std::size_t warm_up(const std::vector<double>& series);
// Standard deviation of a sample (divisor n - 1); 0 below two values.
double standard_deviation(const std::vector<double>& values);

}  // namespace lockstep
