// When a figure has been measured often enough. Pure functions.
#pragma once

#include <vector>

namespace lockstep {

struct MedianInterval {
  double low = 0;
  double high = 0;
};

// The 95 % confidence interval of the median between two order statistics, which holds for any
// distribution (binomial(n, 1/2); e.g. Conover, Practical Nonparametric Statistics, 3.2). Fewer
// than six samples cannot give 95 %: the interval is then infinite.
MedianInterval median_interval(const std::vector<double>& samples);

struct StoppingRule {
  double relative_width = 0.05;  // of the interval, against the median
  int minimum = 10;              // repetitions, at least 6 are needed for an interval
  int maximum = 200;
};

bool enough(const std::vector<double>& samples, const StoppingRule& rule);

}  // namespace lockstep
