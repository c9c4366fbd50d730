// Do the sample statistics equal their definitions (numpy's defaults)?
#include "core/statistics.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace lockstep::statistics_test {
namespace {

TEST(Statistics, KnownValues) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_EQ(mean(values), 2.5);
  EXPECT_EQ(median(values), 2.5);
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.7);  // numpy.quantile([1, 2, 3, 4], 0.9)
  EXPECT_DOUBLE_EQ(standard_deviation(values), std::sqrt(5.0 / 3));
  EXPECT_EQ(median({7, 1, 100}), 7);
}

TEST(Statistics, SmallSamples) {
  EXPECT_EQ(mean({}), 0);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(quantile({}, 0.9), 0);
  EXPECT_EQ(standard_deviation({}), 0);
  EXPECT_EQ(standard_deviation({3}), 0);
  EXPECT_EQ(quantile({3}, 0.3), 3);
}

RC_GTEST_PROP(Statistics, QuantilesAreOrderedAndIgnoreTheOrderOfValues,
              (const std::vector<std::int16_t>& raw)) {
  RC_PRE(!raw.empty());
  std::vector<double> values(raw.begin(), raw.end());
  std::vector<double> reversed(raw.rbegin(), raw.rend());
  const double low = *rc::gen::inRange(0, 101) / 100.0, high = *rc::gen::inRange(0, 101) / 100.0;
  RC_ASSERT(quantile(values, low) == quantile(reversed, low));
  if (low <= high) RC_ASSERT(quantile(values, low) <= quantile(values, high));
  RC_ASSERT(quantile(values, 0) == *std::min_element(values.begin(), values.end()));
  RC_ASSERT(quantile(values, 1) == *std::max_element(values.begin(), values.end()));
}

}  // namespace
}  // namespace lockstep::statistics_test
