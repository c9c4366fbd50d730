// Are the draws Philox's, and do they follow the distributions they are named after?
#include "core/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

namespace lockstep::random_test {
namespace {

// Known answers published with Random123 (kat_vectors: philox4x32 10).
TEST(Random, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

double normal_probability(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

TEST(Random, NormalQuantileInvertsTheDistribution) {
  // Test values of AS 241's own paper.
  EXPECT_NEAR(normal_quantile(0.25), -0.6744897501960817, 1e-15);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232306167814, 4e-15);
  EXPECT_NEAR(normal_quantile(1e-20), -9.262340089798408, 1e-14);
  EXPECT_EQ(normal_quantile(0.5), 0);
  for (double p = 1e-300; p < 0.5; p *= 1.7) {
    const double x = normal_quantile(p);
    // A relative error e of x changes p by a factor of about 1 + x * x * e.
    EXPECT_NEAR(normal_probability(x) / p, 1, 1e-15 * (10 + 3 * x * x)) << p;
    if (p > 1e-12) {
      EXPECT_NEAR(normal_quantile(1 - p), -x, 1e-16 / p) << p;
    }
  }
}

struct Moments {
  double mean, variance, skewness, kurtosis;
};

Moments moments_of(const std::function<double(const DrawKey&)>& draw) {
  constexpr std::uint32_t ranks = 500, steps = 800;
  std::vector<double> values;
  values.reserve(ranks * steps);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t step = 0; step < steps; ++step) values.push_back(draw({7, rank, step, 3}));
  }
  Moments m{};
  for (const double v : values) m.mean += v;
  m.mean /= static_cast<double>(values.size());
  for (const double v : values) {
    const double d = v - m.mean;
    m.variance += d * d;
    m.skewness += d * d * d;
    m.kurtosis += d * d * d * d;
  }
  m.variance /= static_cast<double>(values.size());
  m.skewness /= static_cast<double>(values.size()) * std::pow(m.variance, 1.5);
  m.kurtosis /= static_cast<double>(values.size()) * m.variance * m.variance;
  return m;
}

// Bounds are five standard errors of each moment for 400,000 independent draws.
TEST(Random, MomentsAreThoseOfTheDistributions) {
  const Moments uniform = moments_of(uniform_draw);
  EXPECT_NEAR(uniform.mean, 0.5, 0.0023);
  EXPECT_NEAR(uniform.variance, 1.0 / 12, 0.0006);
  const Moments normal = moments_of(normal_draw);
  EXPECT_NEAR(normal.mean, 0, 0.008);
  EXPECT_NEAR(normal.variance, 1, 0.0112);
  EXPECT_NEAR(normal.skewness, 0, 0.0194);
  EXPECT_NEAR(normal.kurtosis, 3, 0.0388);
  const Moments exponential = moments_of(exponential_draw);
  EXPECT_NEAR(exponential.mean, 1, 0.008);
  EXPECT_NEAR(exponential.variance, 1, 0.0224);
  const double sigma = 0.3;
  const Moments lognormal = moments_of([&](const DrawKey& k) { return lognormal_draw(k, sigma); });
  const double variance = std::expm1(sigma * sigma) * std::exp(sigma * sigma);
  EXPECT_NEAR(lognormal.mean, std::exp(sigma * sigma / 2), 5 * std::sqrt(variance / 4e5));
  EXPECT_NEAR(lognormal.variance, variance, 0.003);
  const Moments pareto = moments_of([](const DrawKey& k) { return pareto_draw(k, 5); });
  EXPECT_NEAR(pareto.mean, 1.25, 5 * std::sqrt(5.0 / (16 * 3) / 4e5));
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  // Kolmogorov-Smirnov: the critical distance at 0.1 % is 1.95 / sqrt(n).
  std::vector<double> values;
  for (std::uint32_t i = 0; i < 20000; ++i) values.push_back(uniform_draw({1, 0, i, 0}));
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double n = static_cast<double>(values.size());
    distance = std::max({distance, std::abs(values[i] - static_cast<double>(i) / n),
                         std::abs(values[i] - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(20000.0));
  EXPECT_GT(values.front(), 0);
  EXPECT_LT(values.back(), 1);
}

// The vectorized draw of 1001 ranks must equal the draw of each rank, in the tails and around the
// median.
TEST(Random, ManyRanksDrawWhatEachDraws) {
  std::vector<double> values(1001);
  lognormal_draws({7, 5, 3, 2}, 0.4, values);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], lognormal_draw({7, 5 + i, 3, 2}, 0.4)) << i;
  }
}

TEST(Random, EveryPartOfTheKeyMatters) {
  std::set<double> values;
  const std::uint64_t seeds[] = {0, 1, std::uint64_t{1} << 32};
  for (const std::uint64_t seed : seeds) {
    for (std::uint32_t rank : {0U, 1U}) {
      for (std::uint32_t step : {0U, 1U}) {
        for (std::uint32_t event : {0U, 1U}) values.insert(uniform_draw({seed, rank, step, event}));
      }
    }
  }
  EXPECT_EQ(values.size(), 24U);
  EXPECT_EQ(uniform_draw({5, 6, 7, 8}), uniform_draw({5, 6, 7, 8}));
}

TEST(Random, BoundsHold) {
  for (std::uint32_t i = 0; i < 10000; ++i) {
    EXPECT_GE(pareto_draw({1, i, 0, 0}, 2), 1);
    EXPECT_GT(exponential_draw({1, i, 0, 0}), 0);
    EXPECT_GT(lognormal_draw({1, i, 0, 0}, 2), 0);
  }
  EXPECT_EQ(lognormal_draw({1, 2, 3, 4}, 0), 1);
}

}  // namespace
}  // namespace lockstep::random_test
