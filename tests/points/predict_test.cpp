// Do the figures of a prediction follow from the simulated steps by the documented formulas?
#include <cmath>

#include "points/interval.hpp"
#include "points/measured.hpp"
#include "points/simulate.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::predict_test {
namespace {

// A made-up result of a strategy: steps of 0.1, 0.1 and 0.4 s.
StrategyResult made_up_result() {
  StrategyResult r;
  r.step_seconds = {0.1, 0.1, 0.4};
  r.first_step_seconds = 0.5;
  r.simulated_steps = 7;
  r.simulated_micro_batches = 3;
  r.split.forward = 0.08;
  r.split.backward = 0.12;
  r.device_busy = 0.15;
  r.samples_per_step = 64;
  r.memory.device = 1e9;
  r.memory.capacity = 8e10;
  return r;
}

TEST(Predict, ARunHasAtLeastOneStep) {
  const Scenario s = scenario_of("dataset: {samples: 1000, epochs: 0.000001}\n");
  const Prediction p = summarise_point(s, expand(s)[0], made_up_result());
  EXPECT_EQ(p.steps, 1);
  EXPECT_DOUBLE_EQ(p.total_seconds, 0.5);  // the first step
}

TEST(Predict, FiguresFollowTheFormulas) {
  const Scenario s = scenario_of(
      "gpus: 4\ndataset: {samples: 1000, epochs: 3}\nprecision: amp-fp16\n"
      "price_per_gpu_hour: 2 USD/h\n");
  const Point point = expand(s)[0];
  const Prediction p = summarise_point(s, point, made_up_result());
  EXPECT_DOUBLE_EQ(p.step_seconds, 0.2);  // the mean: the parts below add up to it
  EXPECT_DOUBLE_EQ(p.median_step_seconds, 0.1);
  EXPECT_EQ(p.steps, 16 * 3);  // 1000 / 64 rounded up, three times
  EXPECT_DOUBLE_EQ(p.total_seconds, 0.5 + 47 * 0.2);
  EXPECT_DOUBLE_EQ(p.samples_per_second, 64 / 0.2);
  EXPECT_DOUBLE_EQ(p.gpu_utilisation, 0.15 / 0.2);
  EXPECT_DOUBLE_EQ(p.dollars, p.total_seconds / 3600 * 4 * 2);
  EXPECT_EQ(p.nodes, 1);
  EXPECT_EQ(p.simulated_steps, 7);
  EXPECT_EQ(p.simulated_micro_batches, 3);
  EXPECT_EQ(p.precision, "amp-fp16");
  EXPECT_FALSE(p.out_of_memory.has_value());
  // Forward and backward take three times the forward's FLOPs (two per multiply-accumulate); MFU
  // divides them by the peak of the precision.
  const double flops = point.job.step->forward_flops + point.job.step->backward_flops;
  EXPECT_DOUBLE_EQ(p.mfu, flops / 0.2 / point.job.machine.device.fp16_flops);
  EXPECT_NEAR(flops, 16 * 3 * 2 * 1.814e9, 0.05 * flops);  // ResNet-18: 1.814 GMAC
}

// The simulation has a first step and six more; all later steps of the run take
// `later_step_seconds`.
TEST(Predict, ABeginningCountsOnce) {
  StrategyResult r = made_up_result();
  r.later_step_seconds = 0.1;
  const auto total = [&](const std::string& dataset) {
    const Scenario s = scenario_of("gpus: 4\ndataset: {" + dataset + "}\n");
    return summarise_point(s, expand(s)[0], r);
  };
  EXPECT_DOUBLE_EQ(total("steps: 1000").total_seconds, 0.5 + 6 * 0.2 + 993 * 0.1);
  EXPECT_DOUBLE_EQ(total("steps: 5").total_seconds, 0.5 + 4 * 0.2);
  EXPECT_DOUBLE_EQ(total("time: 100 s").steps, std::round(6 + (100 - 6 * 0.2) / 0.1));
  EXPECT_DOUBLE_EQ(total("time: 100 s").step_seconds, 0.2);
}

// A controller needs some rounds until it stops waiting for a worker that is always slow. A whole
// run pays for these rounds once. A switch of rules, in contrast, comes at a share of the run, so
// its beginning scales with the run.
TEST(Predict, AWholeRunIsNotAllBeginning) {
  const auto later = [](const std::string& rule) {
    const Scenario s = scenario_of(
        "gpus: 4\nmodel: resnet18\nsimulation: {steps: 60}\n"
        "stragglers: {slow_ranks: [{rank: 1, factor: 10}]}\n"
        "strategies: [parameter_server: {" +
        rule + "}]\n");
    return simulate(expand(s)).front();
  };
  const StrategyResult controlled = later("controller: {above: 1.5, below: 1.2, window: 5}");
  ASSERT_TRUE(controlled.later_step_seconds);
  EXPECT_LT(*controlled.later_step_seconds, 0.9 * mean(controlled.step_seconds));
  EXPECT_FALSE(later("switch: {to: async, at: 25%}").later_step_seconds);
}

TEST(Predict, TokensCountTheRunOfALanguageModel) {
  const Scenario s = scenario_of(
      "model: gpt2\nbatch: {micro: 2, accumulation: 4}\ngpus: 8\ndataset: {tokens: 1M}\n");
  const Point point = expand(s)[0];
  EXPECT_EQ(steps_of_run(s, point), std::ceil(1e6 / (2 * 1024 * 4 * 8)));
  StrategyResult r = made_up_result();
  EXPECT_DOUBLE_EQ(summarise_point(s, point, r).tokens_per_second, 64 / 0.2 * 1024);
}

TEST(Predict, WithoutADatasetNothingIsTotalled) {
  const Scenario s = scenario_of("");
  const Prediction p = summarise_point(s, expand(s)[0], made_up_result());
  EXPECT_EQ(p.steps, 0);
  EXPECT_EQ(p.total_seconds, 0);
  EXPECT_EQ(p.dollars, 0);
}

TEST(Predict, TheIntervalCombinesCostErrorAndDraws) {
  const Scenario s = scenario_of("");
  Point point = expand(s)[0];
  point.relative_error = 0.06;
  StrategyResult r = made_up_result();
  r.step_seconds = {0.2, 0.2};
  r.provenance = {0, 0, 1};
  const Prediction calm = summarise_point(s, point, r);
  EXPECT_NEAR(calm.step_interval.low, 0.2 * std::exp(-1.645 * 0.06), 1e-5);
  EXPECT_NEAR(calm.step_interval.high, 0.2 * std::exp(1.645 * 0.06), 1e-5);
  r.step_seconds = {0.1, 0.3};
  const Prediction wild = summarise_point(s, point, r);
  const double draws = standard_deviation(r.step_seconds) / 0.2;
  const double sigma = std::sqrt(0.06 * 0.06 + draws * draws);
  EXPECT_NEAR(wild.step_interval.high, 0.2 * std::exp(1.645 * sigma), 1e-4);
}

TEST(Predict, TheIntervalKnowsWhereTheCostsComeFrom) {
  const Scenario s = scenario_of("");
  Point point = expand(s)[0];
  point.relative_error = 0.12;
  StrategyResult r = made_up_result();
  r.step_seconds = {0.2, 0.2};
  const auto sigma = [&](const Scenario& scenario, double measured, double interpolated) {
    r.provenance = {measured, interpolated, 1 - measured - interpolated};
    const Interval interval = summarise_point(scenario, point, r).step_interval;
    EXPECT_NEAR(interval.low * interval.high, 0.2 * 0.2, 1e-12);
    return std::log(interval.high / 0.2) / 1.6448536;
  };
  EXPECT_NEAR(sigma(s, 0, 0), 0.12, 1e-6);
  EXPECT_NEAR(sigma(s, 1, 0), 0.034, 1e-6);
  EXPECT_NEAR(sigma(s, 0, 1), 0.044, 1e-6);
  EXPECT_NEAR(sigma(s, 0.5, 0), std::hypot(0.017, 0.06), 1e-6);
  // An anchor that the prediction meets narrows the error; an anchor that it misses does not.
  EXPECT_NEAR(sigma(scenario_of("anchor: [{gpus: 1, step_time: 201 ms}]"), 0, 0), 0.01, 1e-6);
  EXPECT_NEAR(sigma(scenario_of("anchor: [{gpus: 1, step_time: 300 ms}]"), 0, 0), 0.12, 1e-6);
}

// Each doubling of the GPUs adds 4 % to the modelled part, as a random walk.
TEST(Predict, TheIntervalGrowsWithTheGpus) {
  StrategyResult r = made_up_result();
  r.step_seconds = {0.2, 0.2};
  const auto sigma = [&](const std::string& text, double measured) {
    const Scenario s = scenario_of(text + "\nbatch: {per_gpu: 16}");
    Point point = expand(s)[0];
    point.relative_error = 0.12;
    r.provenance = {measured, 0, 1 - measured};
    return sigma_of(step_error(s, point, r));
  };
  EXPECT_NEAR(sigma("gpus: 1", 0), 0.12, 1e-12);
  EXPECT_NEAR(sigma("gpus: 8", 0), std::hypot(0.12, 0.04 * std::sqrt(3)), 1e-12);
  EXPECT_NEAR(sigma("gpus: 8", 1), 0.034, 1e-12);
  // An anchor of the same strategy on another count replaces the work's error by the 5 % between
  // two runs, and adds 2.8 % if its micro-batch differs.
  EXPECT_NEAR(sigma("gpus: 8\nanchor: [{gpus: 2, step_time: 1 s}]", 0),
              std::hypot(0.05, 0.04 * std::sqrt(2)), 1e-12);
  EXPECT_NEAR(sigma("gpus: 8\nanchor: [{gpus: 1, step_time: 1 s}, {gpus: 4, step_time: 1 s}]", 0),
              std::hypot(0.05, 0.04), 1e-12);
  const Scenario strong =
      scenario_of("gpus: 8\nbatch: {global: 64}\nanchor: [{gpus: 1, step_time: 1 s}]");
  r.provenance = {0, 0, 1};
  EXPECT_NEAR(sigma_of(step_error(strong, expand(strong)[0], r)),
              std::hypot(0.05, 0.028, 0.04 * std::sqrt(3)), 1e-12);
}

// An anchor on two GPUs with two tensor ranks is one replica, which takes the whole odd batch.
TEST(Predict, AnAnchorsBatchIsDividedAmongReplicas) {
  StrategyResult r = made_up_result();
  r.step_seconds = {0.2, 0.2};
  r.provenance = {0, 0, 1};
  const auto work = [&](const std::string& batch) {
    const Scenario s = scenario_of(
        "model: gpt2\nmodel_parameters: {vocabulary: 50304}\nparallel: {tensor: 2}\ngpus: "
        "6\nbatch: {" +
        batch + "}\nanchor: [{gpus: 2, step_time: 1 s}]");
    return step_error(s, expand(s)[0], r).work;
  };
  EXPECT_NEAR(work("global: 63"), std::hypot(0.05, 0.028), 1e-12);
  EXPECT_NEAR(work("global: 63, micro: 21"), 0.05, 1e-12);
}

// Server costs come from separate measurements, so an anchor on one worker does not narrow their
// error.
TEST(Predict, TheIntervalKnowsThatServersAreNotModelled) {
  StrategyResult r = made_up_result();
  r.step_seconds = {0.2, 0.2};
  r.split.exposed_communication = 0;
  const auto sigma = [&](const std::string& text, double modelled) {
    const Scenario s = scenario_of(text + "\nbatch: {per_gpu: 16}\ngpus: 4");
    Point point = expand(s)[0];
    point.relative_error = 0.12;
    r.provenance = {1 - modelled, 0, modelled};
    return sigma_of(step_error(s, point, r, {.doubling = 0, .servers = 0.4}));
  };
  const std::string served = "strategies: [parameter_server]";
  EXPECT_NEAR(sigma("strategies: [ddp]", 1), 0.12, 1e-12);
  EXPECT_NEAR(sigma(served, 1), std::hypot(0.12, 0.4), 1e-12);
  EXPECT_NEAR(sigma(served, 0.5), std::hypot(0.017, 0.06, 0.2), 1e-12);
  EXPECT_NEAR(sigma(served + "\nanchor: [{gpus: 1, step_time: 1 s}]", 1), std::hypot(0.05, 0.4),
              1e-12);
  EXPECT_NEAR(sigma(served + "\nanchor: [{gpus: 2, step_time: 1 s}]", 1), 0.05, 1e-12);
}

// The exposed share of the step is as uncertain as the network model.
TEST(Predict, TheIntervalKnowsTheNetwork) {
  StrategyResult r = made_up_result();
  r.step_seconds = {0.2, 0.2};
  r.provenance = {0, 0, 1};
  r.split.exposed_communication = 0.05;
  const auto sigma = [&](const std::string& platform) {
    const Scenario s = scenario_of("gpus: 32\nbatch: {per_gpu: 16}\nplatform: " + platform);
    Point point = expand(s)[0];
    point.relative_error = 0.12;
    return sigma_of(step_error(s, point, r));
  };
  const double scaling = 0.04 * std::sqrt(5);
  EXPECT_NEAR(sigma("dgx-h100"), std::hypot(0.75 * 0.12, 0.25 * 0.3, scaling), 1e-12);
  // Four nodes on a shared fabric are two doublings of 12 % each.
  EXPECT_NEAR(sigma("p5.48xlarge"), std::hypot(0.75 * 0.12, 0.25 * std::hypot(0.3, 0.24), scaling),
              1e-12);
}

TEST(Predict, APrecisionTheDeviceLacksIsSaid) {
  const auto warnings = [](const std::string& platform, const std::string& precision) {
    return run_scenario(scenario_of("platform: " + platform + "\nprecision: " + precision))
        .warnings;
  };
  using testing::AllOf;
  using testing::ElementsAre;
  using testing::HasSubstr;
  EXPECT_THAT(warnings("dgx1-v100-32gb", "amp-bf16"),
              ElementsAre(AllOf(HasSubstr("amp-bf16"), HasSubstr("V100"),
                                HasSubstr("no units for "
                                          "bf16"))));
  EXPECT_THAT(warnings("g4dn.12xlarge", "pure-bf16"), ElementsAre(HasSubstr("T4")));
  EXPECT_THAT(warnings("g4dn.12xlarge", "tf32"), ElementsAre(HasSubstr("the fp32 kernels")));
  for (const char* precision : {"fp32", "torch-fp32", "amp-fp16", "pure-fp16"}) {
    EXPECT_THAT(warnings("dgx1-v100-32gb", precision), testing::IsEmpty()) << precision;
  }
  EXPECT_THAT(warnings("dgx-a100-80gb", "amp-bf16"), testing::IsEmpty());
}

TEST(Predict, OutOfMemorySaysHowMuchIsMissing) {
  const Scenario s = scenario_of("");
  StrategyResult r = made_up_result();
  r.memory.device = 9e10;
  const Prediction p = summarise_point(s, expand(s)[0], r);
  ASSERT_TRUE(p.out_of_memory.has_value());
  EXPECT_DOUBLE_EQ(p.out_of_memory->shortfall, 1e10);
  EXPECT_EQ(p.memory.capacity, 8e10);
}

TEST(Predict, WhatDoesNotFitHasNoPrice) {
  const Scenario s = scenario_of("dataset: {samples: 1000}\nprice_per_gpu_hour: 2 USD/h\n");
  StrategyResult r = made_up_result();
  EXPECT_GT(summarise_point(s, expand(s)[0], r).dollars, 0);
  r.memory.device = 9e10;
  const Prediction p = summarise_point(s, expand(s)[0], r);
  EXPECT_EQ(p.dollars, 0);
  EXPECT_GT(p.total_seconds, 0);  // the time that it would take
}

// All simulated steps count, also the steps before the steady state.
TEST(Predict, SimulatedStepsAreAllThatWereSimulated) {
  const auto points =
      expand(scenario_of("gpus: 8\nsimulation: {steps: 50}\n"
                         "strategies: [ddp, fsdp, parameter_server: {consistency: sync}]\n"
                         "data_loading: {samples_per_second: 4k}\n"));
  for (const StrategyResult& r : simulate(points)) {
    EXPECT_GE(r.simulated_steps, static_cast<int>(r.step_seconds.size()) + 1);
    EXPECT_EQ(r.step_seconds.size(), r.extrapolated ? 3U : 50U);
  }
  const auto random = expand(scenario_of(
      "stragglers: {per_step: {lognormal: {sigma: 5%}}}\nsimulation: {steps: 12}\ngpus: 8\n"));
  EXPECT_EQ(simulate(random).front().simulated_steps, 13);
}

// A single long point shows its progress.
TEST(Predict, ProgressNamesThePointAndHowFarItIs) {
  const auto points =
      expand(scenario_of("gpus: 512\nplatform: dgx-a100-80gb-hdr4\nsimulation: {steps: 30000}\n"
                         "stragglers: {per_step: {lognormal: {sigma: 5%}}}\n"));
  std::vector<double> seen;
  simulate(points, {1, [&](const RunProgress& progress) {
                      EXPECT_EQ(progress.all, 1U);
                      if (progress.done == 1) return;
                      EXPECT_EQ(progress.point, "ddp on 512 GPUs");
                      seen.push_back(progress.fraction);
                    }});
  ASSERT_FALSE(seen.empty());
  EXPECT_LT(seen.front(), 1);
  EXPECT_GT(seen.back(), seen.front());
  EXPECT_LE(seen.back(), 1);
}

TEST(Predict, StarvingWorkersAreAWarningOfTheRecord) {
  const std::string far =
      "model: vgg16\nplatform: dgx-a100-80gb-10gbe\nbatch: {per_gpu: 32}\ngpus: 16\n"
      "simulation: {steps: 40}\n";
  const ResultRecord uneven =
      run_scenario(scenario_of(far + "strategies: [parameter_server: {consistency: async}]\n"));
  EXPECT_THAT(
      uneven.warnings,
      testing::Contains(testing::HasSubstr("parameter_server on 16 GPUs: 8 of 16 workers do ")));
  const Prediction& p = uneven.predictions[0];
  ASSERT_TRUE(p.worker_steps.has_value());
  EXPECT_LT(p.worker_steps->least, 0.25 / 16);
  EXPECT_GT(p.worker_steps->most, 1.5 / 16);
  const ResultRecord sync =
      run_scenario(scenario_of(far + "strategies: [parameter_server: {consistency: sync}]\n"));
  EXPECT_TRUE(sync.warnings.empty());
  EXPECT_FALSE(sync.predictions[0].worker_steps.has_value());
}

TEST(Predict, ScalingEfficiencyIsOverTheSmallestCountOfTheSameStrategy) {
  const ResultRecord record =
      run_scenario(scenario_of("strategies: [ddp, fsdp]\ngpus: [4, 1, 8]\n"));
  ASSERT_EQ(record.predictions.size(), 6U);
  for (std::size_t e = 0; e < 2; ++e) {
    const Prediction& base = record.predictions[3 * e + 1];
    EXPECT_EQ(base.gpus, 1);
    EXPECT_DOUBLE_EQ(base.scaling_efficiency, 1);
    for (std::size_t i = 3 * e; i < 3 * e + 3; ++i) {
      const Prediction& p = record.predictions[i];
      EXPECT_DOUBLE_EQ(p.scaling_efficiency,
                       p.samples_per_second / p.gpus / base.samples_per_second);
    }
  }
}

std::vector<std::string> wires(const std::vector<StrategyResult>& results) {
  std::vector<std::string> list;
  for (const auto& r : results) list.push_back(to_wire(r));
  return list;
}

TEST(Predict, NeitherWorkersNorOrderNorRepetitionChangeABit) {
  const std::string rest =
      "gpus: [1, 2, 8]\nstragglers: {per_step: {lognormal: {sigma: 5%}}, per_rank: 2%}\n";
  const auto points = expand(
      scenario_of("strategies: [ddp, fsdp, parameter_server: {consistency: async}]\n" + rest));
  const auto one = wires(simulate(points, {1, {}}));
  EXPECT_EQ(wires(simulate(points, {1, {}})), one);
  EXPECT_EQ(wires(simulate(points, {4, {}})), one);
  const auto turned = expand(
      scenario_of("strategies: [parameter_server: {consistency: async}, fsdp, ddp]\n" + rest));
  const auto two = wires(simulate(turned, {4, {}}));
  for (std::size_t e = 0; e < 3; ++e) {
    for (std::size_t g = 0; g < 3; ++g) {
      EXPECT_EQ(two[3 * (2 - e) + g], one[3 * e + g]) << points[3 * e + g].label;
    }
  }
}

TEST(Predict, AnotherSeedIsAnotherDraw) {
  const std::string text = "gpus: 8\nstragglers: {per_step: {lognormal: {sigma: 5%}}}\n";
  const auto a = simulate(expand(scenario_of(text + "simulation: {steps: 8, seed: 1}\n")));
  const auto b = simulate(expand(scenario_of(text + "simulation: {steps: 8, seed: 2}\n")));
  EXPECT_NE(a[0].step_seconds, b[0].step_seconds);
}

}  // namespace
}  // namespace lockstep::predict_test
