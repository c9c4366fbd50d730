// Small statistics over a sample. All functions but warm_up() take values in any order; none modifies them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep {

double mean(const std::vector<double>& values);  // 0 for an empty sample
double median(const std::vector<double>& values);
// Linear interpolation between order statistics (type 7, as numpy's default); q in [0, 1].
double quantile(const std::vector<double>& values, double q);
// Hodges and Lehmann (1963): the median of the means of all pairs, each value with itself, too. Nearly
// as sure as a mean, and not moved far by strange values as long as they are fewer than three in ten.
// 0 for an empty sample.
double pseudo_median(const std::vector<double>& values);
struct ConfidenceBounds {
  double low = 0, high = 0;
};
// Where the middle of a symmetric distribution lies with 95 % confidence, by independent values from
// it: between two of those means, by Wilcoxon's signed ranks (exact; Hollander and Wolfe,
// Nonparametric Statistical Methods, 3.3). Nothing for fewer than six values.
std::optional<ConfidenceBounds> pseudo_median_bounds(const std::vector<double>& values);
// How many values at the beginning of a series are unlike those that follow: a warm-up. It ends where
// the standard error of the mean of what is left is smallest (MSER-5: White, Cobb, Spratt, A
// comparison of five steady-state truncation heuristics for simulation, WSC 2000): in fives, at most
// half of all, and none where its mean lies within five standard errors of the others'.
std::size_t warm_up(const std::vector<double>& series);
double standard_deviation(const std::vector<double>& values);  // sample (n-1); 0 below two values

}  // namespace lockstep
