// Small statistics over a sample, for logs, measurements and series of steps. All functions but
// warm_up() take values in any order; none modifies them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep {

double mean(const std::vector<double>& values);  // 0 for an empty sample
double median(const std::vector<double>& values);
// Linear interpolation between order statistics (type 7, as numpy's default); q in [0, 1].
double quantile(const std::vector<double>& values, double q);
// Hodges and Lehmann (1963): the median of the means of all pairs, including pairs of a value with
// itself. Nearly as precise as a mean, and robust as long as fewer than three in ten values are
// outliers. 0 for an empty sample.
double pseudo_median(const std::vector<double>& values);
struct ConfidenceBounds {
  double low = 0, high = 0;
};
// The 95 % confidence interval of the centre of a symmetric distribution, from independent values.
// Its bounds are two of the means of pairs, chosen by Wilcoxon's signed ranks (exact; Hollander and
// Wolfe, Nonparametric Statistical Methods, 3.3). Nothing for fewer than six values.
std::optional<ConfidenceBounds> pseudo_median_bounds(const std::vector<double>& values);
// Number of values at the beginning of a series that belong to its warm-up. The warm-up is the
// prefix whose removal minimises the standard error of the mean (MSER-5: White, Cobb, Spratt, A
// comparison of five steady-state truncation heuristics for simulation, WSC 2000), in batches of
// five, at most half of all values. It is 0 if the mean of the prefix lies within five standard
// errors of the mean of the rest.
std::size_t warm_up(const std::vector<double>& series);
double standard_deviation(const std::vector<double>& values);  // sample (n-1); 0 below two values

}  // namespace lockstep
