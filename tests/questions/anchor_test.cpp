// Does a prediction meet its anchor, and is everything else left to the model?
#include "questions/anchor.hpp"

#include "points/measured.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::anchor_test {
namespace {

double step_of(const Scenario& s, std::size_t i, const std::vector<CostScale>& scales) {
  return mean(simulate(expand(s, scales))[i].step_seconds);
}

std::string row(const std::string& more, double seconds) {
  return "{" + more + ", step_time: " + std::to_string(seconds * 1e3) + " ms}";
}

TEST(Anchor, OneRowOnOneGpuIsMet) {
  for (const double factor : {0.5, 0.93, 1.7, 4.0}) {
    const Scenario plain = scenario_of("gpus: [1, 8]\n");
    const double measured = factor * step_of(plain, 0, {});
    const Scenario s = scenario_of("gpus: [1, 8]\nanchor: [" + row("gpus: 1", measured) + "]\n");
    const auto scales = anchor_scales(s, {});
    ASSERT_EQ(scales.size(), 1U);
    EXPECT_NEAR(step_of(s, 0, scales) / measured, 1, 1e-6) << factor;
    EXPECT_EQ(scales[0].communication, 1);  // one GPU says nothing about the network
    EXPECT_EQ(scales[0].device, scales[0].host);
  }
}

TEST(Anchor, EveryWayToStateATimeMeansTheSameStep) {
  const Scenario s = scenario_of(
      "model: gpt2\nbatch: {micro: 2, accumulation: 2}\ngpus: 4\n"
      "dataset: {tokens: 8192000}\n");  // 500 steps
  const Point point = expand(s)[0];
  MeasuredRow step, total, samples, tokens, memory;
  step.step_time = 0.25;
  total.total_time = 125;
  samples.samples_per_second = 64;
  tokens.tokens_per_second = 64 * 1024;
  memory.memory = 1e9;
  for (const auto& r : {step, total, samples, tokens}) {
    EXPECT_DOUBLE_EQ(measured_step_seconds(s, point, r), 0.25);
  }
  EXPECT_EQ(measured_step_seconds(s, point, memory), 0);
}

TEST(Anchor, RowsOnSeveralCountsFindTheFactorsBehindThem) {
  // The "measured" rows are predictions with other factors; the fit must find these factors.
  const std::string rest = "gpus: [1, 2, 8]\nplatform: g5.48xlarge\nbatch: {per_gpu: 16}\n";
  const Scenario plain = scenario_of(rest);
  const CostScale truth{1.3, 1.3, 1.6};
  const double one = step_of(plain, 0, {truth}), two = step_of(plain, 1, {truth});
  const double eight = step_of(plain, 2, {truth});
  const Scenario s =
      scenario_of(rest + "anchor: [" + row("gpus: 1", one) + ", " + row("gpus: 8", eight) + "]\n");
  const auto scales = anchor_scales(s, {});
  EXPECT_NEAR(scales[0].device, 1.3, 0.02);
  EXPECT_NEAR(scales[0].communication, 1.6, 0.05);
  EXPECT_NEAR(step_of(s, 1, scales) / two, 1, 0.01);  // on a count without a row
}

TEST(Anchor, AnEntrysOwnRowsAreFittedAlone) {
  const Scenario plain = scenario_of("strategies: [ddp, fsdp]\n");
  const double ddp = step_of(plain, 0, {}), fsdp = step_of(plain, 1, {});
  const Scenario s =
      scenario_of("strategies: [ddp, fsdp]\nanchor: [" + row("strategy: ddp, gpus: 1", 2 * ddp) +
                  ", " + row("strategy: fsdp, gpus: 1", 3 * fsdp) + "]\n");
  const auto scales = anchor_scales(s, {});
  ASSERT_EQ(scales.size(), 2U);
  EXPECT_NEAR(step_of(s, 0, scales) / (2 * ddp), 1, 1e-6);
  EXPECT_NEAR(step_of(s, 1, scales) / (3 * fsdp), 1, 1e-6);
  EXPECT_GT(scales[1].device, 1.4 * scales[0].device);
}

TEST(Anchor, AnEntryWithoutRowsTakesTheOthers) {
  const Scenario plain = scenario_of("strategies: [ddp, fsdp]\n");
  const Scenario s = scenario_of("strategies: [ddp, fsdp]\nanchor: [" +
                                 row("strategy: ddp, gpus: 1", 2 * step_of(plain, 0, {})) + "]\n");
  const auto scales = anchor_scales(s, {});
  ASSERT_EQ(scales.size(), 2U);
  EXPECT_EQ(scales[0].device, scales[1].device);
}

TEST(Anchor, NoneMeansAsModelled) {
  EXPECT_TRUE(anchor_scales(scenario_of(""), {}).empty());
}

TEST(Anchor, WhatIsOutOfReachIsSaid) {
  const Scenario s = scenario_of("anchor: [{gpus: 1, step_time: 1 h}]\n");
  EXPECT_THAT(run_scenario(s).warnings,
              testing::Contains(testing::HasSubstr("the anchor of ddp on 1 GPU is not met")));
}

// Contradictory rows give a warning in the record, so that JSON has it too.
TEST(Anchor, RowsThatContradictEachOtherAreSaid) {
  const Scenario s = scenario_of(
      "gpus: [1, 8]\nanchor: [{gpus: 1, step_time: 500 ms}, {gpus: 8, step_time: 5 ms}]\n");
  EXPECT_THAT(run_scenario(s).warnings,
              testing::AllOf(testing::Contains(testing::HasSubstr("ddp on 1 GPU is not met")),
                             testing::Contains(testing::HasSubstr("ddp on 8 GPUs is not met"))));
}

TEST(Anchor, OnlyAMemoryFigureIsNoAnchor) {
  EXPECT_THAT(
      refusal([] { run_scenario(scenario_of("anchor: [{gpus: 1, peak_allocated: 1 GB}]\n")); }),
      testing::HasSubstr("test.yaml:7:10: anchor: gives no time"));
}

}  // namespace
}  // namespace lockstep::anchor_test
