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

TEST(Statistics, PseudoMedianIsThatOfAllPairs) {
  EXPECT_EQ(pseudo_median({}), 0);
  EXPECT_EQ(pseudo_median({3}), 3);
  EXPECT_EQ(pseudo_median({1, 3}), 2);
  EXPECT_EQ(pseudo_median({0, 1, 100}), 25.5);  // 0, 0.5, 1, 50, 50.5, 100
}

// Critical values of the signed-rank test, two-sided 5 %: 0 for six values, 5 for nine, 52 for
// twenty.
TEST(Statistics, BoundsOfThePseudoMedianAreThoseOfTheSignedRanks) {
  EXPECT_FALSE(pseudo_median_bounds({}));
  EXPECT_FALSE(pseudo_median_bounds({1, 2, 3, 4, 5}));
  for (const auto& [count, critical] : {std::pair{6, 0}, {9, 5}, {20, 52}}) {
    std::vector<double> values;
    // no two of the pairs have the same mean
    for (int i = 0; i < count; ++i) values.push_back(std::exp(i));
    std::vector<double> means;
    for (const double a : values) {
      for (const double b : values) {
        if (a <= b) means.push_back((a + b) / 2);
      }
    }
    std::sort(means.begin(), means.end());
    const std::optional<ConfidenceBounds> bounds = pseudo_median_bounds(values);
    ASSERT_TRUE(bounds) << count;
    EXPECT_EQ(bounds->low, means[static_cast<std::size_t>(critical)]) << count;
    EXPECT_EQ(bounds->high, means[means.size() - 1 - static_cast<std::size_t>(critical)]) << count;
  }
}

// For normally distributed samples, 96.1 % of the confidence bounds of nine values contain the true
// center.
TEST(Statistics, BoundsOfThePseudoMedianHoldTheTruth) {
  constexpr int samples = 4000;
  int held = 0;
  for (std::uint32_t s = 0; s < samples; ++s) {
    std::vector<double> values;
    for (std::uint32_t i = 0; i < 9; ++i) values.push_back(7 + normal_draw(DrawKey{1, s, i, 0}));
    const std::optional<ConfidenceBounds> bounds = pseudo_median_bounds(values);
    held += bounds->low <= 7 && 7 <= bounds->high ? 1 : 0;
  }
  EXPECT_NEAR(held / double(samples), 0.961, 0.015);  // 1 - 2 P(W <= 5)
}

TEST(Statistics, AWarmUpIsUnlikeTheRest) {
  std::vector<double> series(100, 1.0);
  EXPECT_EQ(warm_up(series), 0);
  for (std::size_t i = 0; i < 10; ++i) series[i] = 6;
  EXPECT_EQ(warm_up(series), 10);
  for (std::size_t i = 10; i < 100; ++i) series[i] = i % 2 == 0 ? 0.9 : 1.1;
  EXPECT_EQ(warm_up(series), 10);
  for (std::size_t i = 3; i < 10; ++i) series[i] = 1;  // three of the first five values stay
  EXPECT_EQ(warm_up(series), 5);
  // the deviating values are no longer at the beginning
  for (std::size_t i = 0; i < 3; ++i) std::swap(series[i], series[i + 60]);
  EXPECT_EQ(warm_up(series), 0);
  EXPECT_EQ(warm_up({}), 0);
  EXPECT_EQ(warm_up({3}), 0);
}

// By chance, three of a thousand such series have a warm-up; none of the 200 series here has one.
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
