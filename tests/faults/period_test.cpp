// Is the automatic checkpoint period the one that ends runs soonest?
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "faults/long_run.hpp"
#include "fixture.hpp"

namespace lockstep::period_test {
namespace {

TEST(Period, IsNearlyYoungsWhereWritingIsShort) {
  EXPECT_NEAR(best_checkpoint_period(1, 1e8) / std::sqrt(2e8), 1, 1e-3);
}

TEST(Period, WithoutFailuresThereIsNone) {
  EXPECT_TRUE(std::isinf(best_checkpoint_period(10, std::numeric_limits<double>::infinity())));
}

TEST(Period, WritingForLongerThanFailuresLeaveIsDoneOncePerFailure) {
  EXPECT_EQ(best_checkpoint_period(300, 100), 100);
}

// The optimum of a sweep over periods. The mean times of played runs are fitted by least squares to
// A period + B / period + C, whose minimum is at sqrt(B / A).
double swept_optimum(double write, double between) {
  const double guess = std::sqrt(2 * write * between);
  double m[3][4] = {};
  for (double factor = 0.5; factor <= 2.01; factor *= 1.1) {
    const double period = std::round(guess * factor);
    LongRun plan = gang(1, 1e5 * between, 1 / between);
    plan.write_seconds = write;
    plan.steps_between_checkpoints = period;
    const double x[3] = {period / guess, guess / period, 1};
    const double y = play(plan, 5, 0).seconds / plan.steps;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) m[i][j] += x[i] * x[j];
      m[i][3] += x[i] * y;
    }
  }
  for (int i = 0; i < 3; ++i) {
    for (int r = 0; r < 3; ++r) {
      if (r == i) continue;
      const double f = m[r][i] / m[i][i];
      for (int c = i; c < 4; ++c) m[r][c] -= f * m[i][c];
    }
  }
  return guess * std::sqrt(m[1][3] / m[1][1] / (m[0][3] / m[0][0]));
}

TEST(Period, IsTheOptimumThatASweepFinds) {
  EXPECT_NEAR(swept_optimum(20, 10000) / best_checkpoint_period(20, 10000), 1, 0.05);
  EXPECT_NEAR(swept_optimum(60, 10000) / best_checkpoint_period(60, 10000), 1, 0.05);
}

}  // namespace
}  // namespace lockstep::period_test
