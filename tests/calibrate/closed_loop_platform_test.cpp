// Are the closed loop's platform, its estimate of its own duration, and its summary of measurements
// right?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <vector>

#include "closed_loop/cases.hpp"
#include "closed_loop/estimate.hpp"
#include "closed_loop/platform.hpp"
#include "closed_loop/report.hpp"
#include "hardware/machine.hpp"
#include "launch/machine_state.hpp"
#include "launch/processes.hpp"

namespace lockstep::closed_loop_platform_test {
namespace {

// Each rank is pinned to one core, so the prediction assumes one core per rank, even if the machine
// has more.
TEST(ClosedLoop, PredictsForTheCoresThatTheRanksHave) {
  const RunFolder folder;
  const std::string path = folder.file("platform.yaml");
  ClosedLoopOptions options;
  for (const auto& [ranks, cores, expected] :
       std::vector<std::array<int, 3>>{{2, 16, 2}, {8, 16, 8}, {8, 3, 3}, {2, 1, 1}}) {
    options.ranks = ranks;
    std::ofstream(path) << closed_loop_platform(options, cores, false);
    const Machine machine = load_machine(path);
    EXPECT_EQ(machine.gpus_per_node, ranks);
    EXPECT_EQ(machine.host.cores, expected) << ranks << " ranks on " << cores;
    EXPECT_GT(machine.host.core_network_rate, 0);
  }
  options.network = "250Mbit";
  std::ofstream(path) << closed_loop_platform(options, 16, true);
  const Machine linked = load_machine(path);
  EXPECT_EQ(linked.max_nodes, options.ranks);
  EXPECT_DOUBLE_EQ(linked.fabric.nic_bytes_per_second, 250e6 / 8);
  EXPECT_EQ(linked.host.cores, 1);
}

// Asynchronous steps come in bunches, so a real run reports their mean, and the prediction's mean
// is compared.
TEST(ClosedLoop, ComparesLikeWithLike) {
  RealRun run;
  run.step_seconds = 2;
  Prediction predicted;
  predicted.step_seconds = 2;
  predicted.median_step_seconds = 3;
  Truth truth;
  add_repetition(truth, run, predicted);
  predicted.worker_steps.emplace();
  add_repetition(truth, run, predicted);
  EXPECT_EQ(truth.predicted, (std::vector<double>{3, 2}));
}

RealRun run_of(std::vector<double> steps) {
  RealRun run;
  run.step_seconds = 1;
  run.each_step_seconds = std::move(steps);
  run.memory.allocated = 1;
  return run;
}

// A repetition on a disturbed machine must not decide about the prediction.
TEST(ClosedLoop, GivesItsVerdictOverQuietRepetitionsOnly) {
  ClosedLoopOptions options;
  options.max_error = 0.1;
  ResultRecord record;
  Prediction& predicted = record.predictions.emplace_back();
  predicted.strategy = "fsdp";
  predicted.median_step_seconds = predicted.step_seconds = 1;
  predicted.memory.allocated = 1;
  const std::vector<double> equal{1, 1.01, 0.99, 1.02, 0.98, 1, 1, 1};
  std::vector<Truth> truths(1);
  const auto report = [&] { return closed_loop_report(options, record, truths); };
  // Without a quiet repetition even a correct prediction does not pass.
  add_repetition(truths[0], run_of(equal), predicted, {.seconds = 5, .foreign = 0.8});
  add_repetition(truths[0], run_of({1, 2, 1, 3, 1, 2, 3, 2}), predicted, {.seconds = 5});
  EXPECT_EQ(quiet_repetitions(truths[0], options), 0U);
  EXPECT_FALSE(report().decided);
  EXPECT_THAT(objection(options, report()), testing::HasSubstr("no verdict"));
  EXPECT_EQ(exit_code(options, report()), 75);
  EXPECT_THAT(report().text, testing::HasSubstr("fsdp: the machine was quiet in 0 of 2 repetitions "
                                                "(others had up to 0.80 cores"));
  // A single quiet repetition decides, for or against the prediction.
  add_repetition(truths[0], run_of(equal), predicted, {.seconds = 5, .foreign = 0.05});
  EXPECT_TRUE(report().decided);
  EXPECT_NEAR(report().worst, 0, 1e-12);
  EXPECT_EQ(objection(options, report()), "");
  EXPECT_EQ(exit_code(options, report()), 0);
  truths[0].predicted = {1, 1, 1.3};
  EXPECT_NEAR(report().worst, 0.3, 1e-12);
  EXPECT_THAT(objection(options, report()), testing::HasSubstr("30.0 % is more than 10.0 %"));
  EXPECT_EQ(exit_code(options, report()), 4);
  EXPECT_THAT(report().text, testing::HasSubstr("quiet in 1 of 3"));
}

// A machine that computes slower in the run than during its measurement must be distinguishable
// from a wrong prediction.
TEST(ClosedLoop, SaysHowItPredictsWithTheComputeOfTheRun) {
  ClosedLoopOptions options;
  ResultRecord record;
  Prediction& predicted = record.predictions.emplace_back();
  predicted.strategy = "ps-async";
  predicted.worker_steps.emplace();
  predicted.step_seconds = 1.8;
  predicted.memory.allocated = 1;
  RealRun run;
  run.step_seconds = 2;
  run.memory.allocated = 1;
  std::vector<Truth> truths(1);
  add_repetition(truths[0], run, predicted);
  EXPECT_THAT(closed_loop_report(options, record, truths).text,
              testing::HasSubstr("-10.0 .. -10.0        -         -"));
  Prediction so = predicted;
  so.step_seconds = 1.96;
  add_own_compute(truths[0], {1.1, 1.3}, so);
  const LoopReport report = closed_loop_report(options, record, truths);
  EXPECT_THAT(report.text, testing::HasSubstr("+20.0 %    -2.0 %"));
  // the verdict uses the prediction as a user would have seen it
  EXPECT_NEAR(report.worst, 0.1, 1e-12);
  add_repetition(truths[0], run, predicted);
  EXPECT_THAT(closed_loop_report(options, record, truths).text,
              // the compute of this repetition is not known
              testing::HasSubstr("-10.0 .. -10.0        -         -"));
}

// From six repetitions on, the error is the pseudo-median of the repetitions' errors, with an
// interval.
TEST(ClosedLoop, SaysHowSureAnErrorIsWhereRepetitionsAreEnough) {
  ClosedLoopOptions options;
  ResultRecord record;
  Prediction& predicted = record.predictions.emplace_back();
  predicted.strategy = "ps-async";
  predicted.worker_steps.emplace();
  predicted.memory.allocated = 1;
  RealRun run;
  run.step_seconds = 1;
  run.memory.allocated = 1;
  std::vector<Truth> truths(1);
  for (const double error : {-0.08, -0.04, -0.02, 0.0, 0.01}) {
    predicted.step_seconds = 1 + error;
    add_repetition(truths[0], run, predicted);
  }
  EXPECT_THAT(closed_loop_report(options, record, truths).text,
              testing::Not(testing::HasSubstr("confidence")));
  predicted.step_seconds = 1.05;
  add_repetition(truths[0], run, predicted);
  const LoopReport report = closed_loop_report(options, record, truths);
  EXPECT_THAT(report.text,
              testing::HasSubstr("Errors with 95 % confidence: ps-async -8.0 to +5.0 %.\n"));
  EXPECT_NEAR(report.worst, 0.015, 1e-12);  // the median is -0.01, the mean -0.0133
}

TEST(ClosedLoop, SlowRanksAreSlowBesidesWhatTheirComputeTook) {
  Scenario scenario;
  scenario.stragglers.slow_ranks = {{1, 1.5}};
  const auto slow = with_own_compute(scenario, {1.1, 0.9}).stragglers.slow_ranks;
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].rank, 1);
  EXPECT_DOUBLE_EQ(slow[0].factor, 1.5 * 0.9);
  EXPECT_EQ(slow[1].rank, 0);
  EXPECT_DOUBLE_EQ(slow[1].factor, 1.1);
}

TEST(ClosedLoop, SumsTheLayersThatWereMeasured) {
  ClosedLoopOptions options;
  options.model = "lenet5";
  options.batch = 8;
  const TrainingStep step = step_of(options, AttentionKind::plain);
  Profile profile;
  EXPECT_EQ(measured_compute(options, profile), 0);
  ProfileModel& model = profile.models.emplace_back();
  model.model = step.model;
  model.input_bytes_per_sample = step.input_bytes / static_cast<double>(step.samples);
  model.batches.resize(2);
  model.batches[0].samples = 4;
  model.batches[0].layers = {{"a", 9.0, 9.0}};
  model.batches[1].samples = 8;
  model.batches[1].layers = {{"a", 0.25, 0.5}, {"b", 0.125, std::nullopt}};
  EXPECT_EQ(measured_compute(options, profile), 0.875);
  model.batches[1].step_factors = {1, 1, 1, 1, 2};  // one step was interrupted
  EXPECT_DOUBLE_EQ(measured_compute(options, profile), 1.2 * 0.875);
}

TEST(Estimate, GrowsWithWhatIsAsked) {
  const std::vector<double> small(6, 0.2), large(6, 12.0);
  const std::vector<double> sizes{1 << 16, 1 << 20, 1 << 23, 1 << 26};
  ClosedLoopOptions options;
  EXPECT_LT(estimate_loop(options, 5, sizes, small, 0, 0).total(),
            300);  // with default options and without pauses
  EXPECT_GT(estimate_loop(options, 5, sizes, large, 0, 0).total(),
            3600);  // VGG-16 at 224 x 224 on one core
  const double loopback = estimate_loop(options, 1, sizes, small, 0, 0).first;
  const double pauses = 2 * layer_repetitions * layer_pause;
  EXPECT_DOUBLE_EQ(
      estimate_loop(options, 1, sizes, small, 3, 0).total(),
      estimate_loop(options, 1, sizes, small, 0, 0).total() + 3 * options.repetitions * pauses);
  EXPECT_DOUBLE_EQ(estimate_loop(options, 1, sizes, small, 0, 2).total(),
                   estimate_loop(options, 1, sizes, small, 0, 0).total() +
                       2 * options.repetitions * hook_seconds(options.layers_seconds));
  // all strategies need the pause
  EXPECT_DOUBLE_EQ(estimate_loop(options, 1, sizes, small, 6, 0).first,
                   estimate_loop(options, 1, sizes, small, 0, 0).first + pauses);
  options.network = "1 Gbit/s";  // thirty times 64 MiB take longer than the time allotted to a size
  const double slow = estimate_loop(options, 1, sizes, small, 0, 0).first;
  EXPECT_NEAR(slow - loopback, 30 * (1 << 26) / 125e6 - 2 * options.collective_seconds, 1);
  options.network = "loopback";
  options.keep_profile = true;
  EXPECT_EQ(estimate_loop(options, 5, sizes, small, 0, 0).first, 0);
  const double kept = estimate_loop(options, 5, sizes, small, 0, 0).runs;
  options.repetitions *= 2;
  EXPECT_DOUBLE_EQ(estimate_loop(options, 5, sizes, small, 0, 0).runs, 2 * kept);
}

TEST(Estimate, IsSaidRoughly) {
  EXPECT_EQ(about(0), "0 s");
  EXPECT_EQ(about(41), "50 s");
  EXPECT_EQ(about(200), "4 min");
  EXPECT_EQ(about(9000), "2.5 h");
}

TEST(SharedCores, AreWorthAWarning) {
  EXPECT_EQ(shared_cores(2, 2), "");
  EXPECT_THAT(shared_cores(2, 1), testing::StartsWith("2 ranks share 1 core:"));
  EXPECT_THAT(shared_cores(8, 3), testing::StartsWith("8 ranks share 3 cores:"));
}

}  // namespace
}  // namespace lockstep::closed_loop_platform_test
