// How much faster is one prediction than another, how certain is that, and which parts make the
// difference?
#include "questions/compare.hpp"

#include <cmath>

#include "points/interval.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::compare_test {
namespace {

using testing::HasSubstr;
using testing::Not;

ResultRecord record(const std::string& more) {
  return run_scenario(scenario_of(more), {1, {}});
}

TEST(Compare, PartsAddUpToTheDifferenceAndIntervalsHoldTheRatio) {
  const auto list = compare_strategies(
      record("gpus: [2, 8]\nstrategies: [ddp, fsdp, parameter_server]\nmodel: vgg16\n"));
  ASSERT_EQ(list.size(), 4u);
  for (const Comparison& c : list) {
    const double now = 1 / c.prediction.samples_per_second, then = 1 / c.base.samples_per_second;
    double sum = 0;
    for (const Comparison::Part& part : c.parts) sum += part.seconds;
    EXPECT_NEAR(sum, now - then, 8e-3 * then) << c.name;  // parts below 0.1 % are left out
    EXPECT_NEAR(c.speedup, then / now, 1e-12);
    EXPECT_LT(c.interval.low, c.speedup);
    EXPECT_GT(c.interval.high, c.speedup);
    for (std::size_t i = 1; i < c.parts.size(); ++i) {
      EXPECT_GE(std::abs(c.parts[i - 1].seconds), std::abs(c.parts[i].seconds));
    }
  }
}

// The error of the device's speed is the same for both predictions and cancels. Only the error
// between two runs is left.
TEST(Compare, WhatBothAreOffByInCommonCancels) {
  const StepError far{.work = 0.3, .network = 0.1, .scaling = 0.08, .servers = 0, .draws = 0};
  const double runs = std::sqrt(2) * 0.05;
  EXPECT_NEAR(sigma_of_ratio(far, far, true, true), runs, 1e-12);
  EXPECT_NEAR(sigma_of_ratio(far, far, false, false),
              std::sqrt(runs * runs + 2 * (0.09 + 0.01 + 0.0064)), 1e-12);
  const StepError served{.work = 0.3, .network = 0.1, .scaling = 0.08, .servers = 0.4, .draws = 0};
  EXPECT_NEAR(sigma_of_ratio(served, served, true, true), runs, 1e-12);
  EXPECT_NEAR(sigma_of_ratio(far, served, true, true), std::hypot(runs, 0.4), 1e-12);
  const StepError drawn{.work = 0.3, .network = 0.1, .scaling = 0.08, .servers = 0, .draws = 0.04};
  EXPECT_NEAR(sigma_of_ratio(far, drawn, true, true), std::hypot(runs, 0.04), 1e-12);
  EXPECT_NEAR(sigma_of({.work = 0.03, .network = 0.04, .scaling = 0, .servers = 0, .draws = 0.12}),
              0.13, 1e-12);
}

TEST(Compare, OtherMachinesAreLessSure) {
  const ResultRecord a100 = record("gpus: 4\nstrategies: [ddp]\n");
  const auto same = compare_scenarios(a100, record("gpus: 4\nbatch: {per_gpu: 64}\n"));
  const auto other = compare_scenarios(a100, record("gpus: 4\nplatform: g5.12xlarge\n"));
  ASSERT_EQ(same.size(), 1u);
  ASSERT_EQ(other.size(), 1u);
  const auto width = [](const Comparison& c) { return c.interval.high / c.interval.low; };
  EXPECT_GT(width(other[0]), 1.2 * width(same[0]));
  EXPECT_LT(width(other[0]), 4);
}

TEST(Compare, SentencesSayWhatCannotBeTold) {
  const ResultRecord one = record("gpus: 4\n");
  const auto equal = compare_scenarios(one, one);
  ASSERT_EQ(equal.size(), 1u);
  EXPECT_THAT(comparison_sentence(equal[0]), HasSubstr("is as fast as test"));
  EXPECT_THAT(comparison_sentence(equal[0]), HasSubstr("no part of the step differs"));
  const auto slow = compare_scenarios(one, record("gpus: 4\nplatform: g5.12xlarge\n"));
  EXPECT_THAT(comparison_sentence(slow[0]), HasSubstr("times slower than test; +"));
  const auto close = compare_strategies(
      record("gpus: 8\nstrategies: [ddp, {ddp: {bucket_size: 1 MiB}, label: small}]\n"));
  ASSERT_EQ(close.size(), 1u);
  EXPECT_THAT(comparison_sentence(close[0]), HasSubstr("which is not certain ("));
  EXPECT_THAT(comparison_sentence(slow[0]), Not(HasSubstr("not certain")));
}

TEST(Compare, ThePictureHasBothBarsOfEveryComparison) {
  const auto list =
      compare_strategies(record("gpus: [2, 8]\nstrategies: [ddp, fsdp]\nmodel: vgg16\n"));
  const std::string picture = comparison_picture(list);
  EXPECT_THAT(picture, testing::StartsWith("<svg "));
  EXPECT_THAT(picture, HasSubstr(">fsdp, "));
  std::size_t forwards = 0;
  for (std::size_t at = 0; (at = picture.find("<title>forward: ", at)) != std::string::npos; ++at) {
    ++forwards;
  }
  EXPECT_EQ(forwards, 2 * list.size());
}

}  // namespace
}  // namespace lockstep::compare_test
