// Do the sample statistics equal their definitions (numpy's defaults)?
#include "core/statistics.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.hpp"

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

TEST(Statistics, AWarmUpIsUnlikeTheRest) {
  std::vector<double> series(100, 1.0);
  EXPECT_EQ(warm_up(series), 0);
  for (std::size_t i = 0; i < 10; ++i) series[i] = 6;
  EXPECT_EQ(warm_up(series), 10);
  for (std::size_t i = 10; i < 100; ++i) series[i] = i % 2 == 0 ? 0.9 : 1.1;
  EXPECT_EQ(warm_up(series), 10);
  for (std::size_t i = 3; i < 10; ++i) series[i] = 1;  // three in the first five
  EXPECT_EQ(warm_up(series), 5);
  for (std::size_t i = 0; i < 3; ++i) std::swap(series[i], series[i + 60]);  // not at the beginning
  EXPECT_EQ(warm_up(series), 0);
  EXPECT_EQ(warm_up({}), 0);
  EXPECT_EQ(warm_up({3}), 0);
}

// Three of a thousand such series have one by chance, none of these.
TEST(Statistics, WhatIsDrawnAlikeHasNoWarmUp) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::vector<double> series;
    for (std::uint32_t i = 0; i < 100; ++i) series.push_back(lognormal_draw({seed, 0, i, 0}, 0.3));
    EXPECT_EQ(warm_up(series), 0) << seed;
  }
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
