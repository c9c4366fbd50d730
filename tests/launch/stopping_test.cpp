// When has a figure been measured often enough?
#include "launch/stopping.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/statistics.hpp"

namespace lockstep::stopping_test {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) values.push_back(i);
  return values;
}

// The order statistics come from published tables of binomial(n, 1/2) at 95 %: for 6 samples the
// 1st and 6th, for 10 the 2nd and 9th, for 20 the 6th and 15th, for 50 the 18th and 33rd.
TEST(MedianInterval, UsesTheTabledOrderStatistics) {
  const auto expect = [](int n, double low, double high) {
    const MedianInterval interval = median_interval(one_to(n));
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, high) << n;
  };
  expect(6, 1, 6);
  expect(10, 2, 9);
  expect(20, 6, 15);
  expect(50, 18, 33);
}

TEST(MedianInterval, FiveSamplesSayNothing) {
  EXPECT_TRUE(std::isinf(median_interval(one_to(5)).low));
  EXPECT_TRUE(std::isinf(median_interval({}).high));
}

TEST(MedianInterval, CoversTheMedianAtLeast95TimesInAHundred) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> draw(0, 0.5);  // the median is 1
  int covered = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> samples(25);
    for (double& sample : samples) sample = draw(random);
    const MedianInterval interval = median_interval(samples);
    covered += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GE(covered, static_cast<int>(0.945 * trials));  // three standard errors below 95 %
  EXPECT_LE(covered, static_cast<int>(0.985 * trials));  // and not uselessly wide
}

TEST(Enough, StopsWhenTheIntervalIsNarrow) {
  const StoppingRule rule{.relative_width = 0.05, .minimum = 6, .maximum = 100};
  EXPECT_FALSE(enough({1, 1, 1, 1, 1}, rule));
  EXPECT_TRUE(enough({1, 1.01, 1, 0.99, 1, 1.02}, rule));
  EXPECT_FALSE(enough({1, 1.5, 1, 0.9, 1, 1.4}, rule));
}

TEST(Enough, StopsAtTheMaximumHoweverWide) {
  const StoppingRule rule{.relative_width = 0.01, .minimum = 6, .maximum = 8};
  EXPECT_FALSE(enough(one_to(7), rule));
  EXPECT_TRUE(enough(one_to(8), rule));
}

}  // namespace
}  // namespace lockstep::stopping_test
