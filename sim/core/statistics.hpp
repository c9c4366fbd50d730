// Small statistics over a sample. All functions take values in any order and do not modify them.
#pragma once

#include <vector>

namespace lockstep {

double mean(const std::vector<double>& values);  // 0 for an empty sample
double median(const std::vector<double>& values);
// Linear interpolation between order statistics (type 7, as numpy's default); q in [0, 1].
double quantile(const std::vector<double>& values, double q);
double standard_deviation(const std::vector<double>& values);  // sample (n-1); 0 below two values

}  // namespace lockstep
