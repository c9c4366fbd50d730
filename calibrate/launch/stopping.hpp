// Decides whether a value has been measured often enough. Pure functions.
#pragma once

#include <vector>

namespace lockstep {

struct MedianInterval {
  double low = 0;
  double high = 0;
};

// The 95 % confidence interval of the median. Its ends are two order statistics (by binomial(n,
// 1/2); for example Conover, Practical Nonparametric Statistics, 3.2), so it holds for any
// distribution. With fewer than six samples, the interval is infinite.
MedianInterval median_interval(const std::vector<double>& samples);

struct StoppingRule {
  double relative_width = 0.05;  // largest width of the interval, relative to the median
  int minimum = 10;              // repetitions; an interval needs at least 6
  int maximum = 200;
};

bool enough(const std::vector<double>& samples, const StoppingRule& rule);

}  // namespace lockstep
