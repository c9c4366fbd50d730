// Does the summary of the ranks' reports have the right figures, in the record and in JSON?
#include "runs/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::summary_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

RankReport report(int rank, const std::vector<std::pair<double, double>>& steps) {
  RankReport result;
  result.rank = rank;
  for (const auto& [begin, end] : steps)
    result.steps.push_back({begin, end, 0.1, 0.2, 0.1, 3.5, false});
  result.checksum = {1, 2};
  return result;
}

TEST(StepSeconds, OfSynchronousRanksEndWithTheLastOne) {
  TrainOptions options;
  options.steps = 3;
  const std::vector<RankReport> reports{report(0, {{10, 11}, {11, 13}, {13, 14}}),
                                        report(1, {{9.5, 12}, {12, 12.5}, {12.5, 17}})};
  EXPECT_EQ(step_seconds(options, reports), (std::vector<double>{2, 1, 4}));
}

TEST(StepSeconds, OfAsynchronousOnesAreRoundsOfUpdates) {
  TrainOptions options;
  options.strategy = RunStrategy::ps_async;
  options.ranks = 2;
  RankReport server = report(2, {});
  server.updates = {{1, 0, 0}, {2, 1, 1}, {2.5, 0, 1}, {5, 0, 2}};
  EXPECT_EQ(step_seconds(options, {report(0, {}), report(1, {}), server}),
            (std::vector<double>{1.5, 3}));
}

TEST(StepSeconds, OfRanksThatMeetNowAndThenAreMeansOfRounds) {
  TrainOptions options;
  options.strategy = RunStrategy::diloco;
  options.steps = 4;
  options.every = 2;
  const RankReport rank = report(0, {{0, 1}, {1, 4}, {4, 5}, {5, 9}});
  EXPECT_EQ(step_seconds(options, {rank, rank}), (std::vector<double>{2, 2.5}));
  options.strategy = RunStrategy::fedavg;
  RankReport server = report(2, {});
  server.updates = {{1, 0, 0}, {3, 1, 0}, {7, 0, 0}};
  EXPECT_EQ(step_seconds(options, {rank, rank, server}), (std::vector<double>{1, 2}));
  options.participants = 0.5;  // in two rounds each of two ranks takes part once
  EXPECT_EQ(step_seconds(options, {rank, rank, server}), (std::vector<double>{2, 4}));
}

// In ten seconds worker 0 makes two updates and worker 1 one. A round of two updates takes 20 / 3
// seconds, wherever the run begins and ends.
TEST(StepSeconds, OfRepeatedBunchesDoNotDependOnWhereTheRunEnds) {
  std::vector<ServerUpdate> all;
  for (int bunch = 0; bunch < 7; ++bunch) {
    for (const auto& [offset, worker] : {std::pair(1.0, 0), std::pair(2.0, 0), std::pair(9.0, 1)}) {
      all.push_back({10.0 * bunch + offset, worker, 0});
    }
  }
  for (const std::size_t first : {0u, 1u, 2u}) {
    for (const std::size_t last : {18u, 19u, 20u}) {
      const std::vector<ServerUpdate> run(all.begin() + first, all.begin() + last);
      EXPECT_NEAR(mean_round_seconds(run, 2), 20.0 / 3, 1e-12) << first << " " << last;
    }
  }
  // A run without a repetition uses all its updates.
  EXPECT_DOUBLE_EQ(mean_round_seconds({{1, 0, 0}, {2, 0, 0}, {5, 1, 0}}, 2), 4);
}

TEST(Summary, SaysStepsSplitAndStaleness) {
  TrainOptions options;
  options.strategy = RunStrategy::ps_async;
  options.step.samples = 8;
  RankReport server = report(2, {});
  server.updates = {{1, 0, 0}, {2, 1, 1}, {3, 0, 1}, {4, 1, 2}};
  const std::vector<std::pair<double, double>> steps{{0, 2}, {2, 4}};
  const RealRecord record =
      summarise_run(options, "loopback", {report(0, steps), report(1, steps), server});
  ASSERT_EQ(record.runs.size(), 1u);
  const RealRun& run = record.runs.front();
  EXPECT_EQ(run.step_seconds, 2);
  EXPECT_EQ(run.samples_per_second, 8);
  EXPECT_EQ(run.each_step_seconds, (std::vector<double>{2, 2}));
  EXPECT_DOUBLE_EQ(run.phases.forward, 0.1);
  EXPECT_DOUBLE_EQ(run.phases.backward, 0.2);
  EXPECT_DOUBLE_EQ(run.phases.optimizer, 0.1);
  ASSERT_TRUE(run.staleness);
  EXPECT_EQ(run.staleness->mean, 1);
  EXPECT_EQ(run.staleness->max, 2);
  EXPECT_EQ(run.staleness->histogram.at(1), 2);
  EXPECT_EQ(run.staleness->each_update, (std::vector<std::int64_t>{0, 1, 1, 2}));
}

TEST(Summary, SaysWhatEachWorkersComputeTook) {
  TrainOptions options;
  options.strategy = RunStrategy::ps_sync;
  options.steps = 2;
  std::vector<RankReport> reports{report(0, {{0, 1}, {1, 2}}), report(1, {{0, 1}, {1, 2}}),
                                  report(2, {})};
  const auto compute = [&] {
    return summarise_run(options, "loopback", reports).runs[0].rank_compute_seconds;
  };
  EXPECT_TRUE(compute().empty());
  reports[0].steps[0].compute = 0.25;
  reports[0].steps[1].compute = 0.75;
  EXPECT_TRUE(compute().empty());  // rank 1 did not report it
  reports[1].steps[0].compute = reports[1].steps[1].compute = 1.5;
  EXPECT_EQ(compute(), (std::vector<double>{0.5, 1.5}));
  reports[0].steps.clear();  // otherwise rank 1's would look like rank 0's
  EXPECT_TRUE(compute().empty());
}

TEST(Summary, MeansTheRanksLossesAndAddsUpTheirTests) {
  TrainOptions options;
  options.steps = 2;
  std::vector<RankReport> reports{report(0, {{0, 1}, {1, 2}}), report(1, {{0, 1}, {1, 2}})};
  reports[0].steps[1].loss = 1.5;
  const auto run = [&] { return summarise_run(options, "loopback", reports).runs[0]; };
  EXPECT_EQ(run().losses, (std::vector<double>{3.5, 2.5}));
  EXPECT_FALSE(run().test_accuracy);
  reports[0].test_right = 3;
  reports[0].test_judged = reports[1].test_judged = 4;
  EXPECT_EQ(run().test_accuracy, 3.0 / 8);
}

TEST(Summary, SaysHowManyUpdatesWereSkipped) {
  TrainOptions options;
  options.steps = 3;
  const std::vector<std::pair<double, double>> steps{{0, 1}, {1, 2}, {2, 3}};
  std::vector<RankReport> reports{report(0, steps), report(1, steps)};
  EXPECT_TRUE(summarise_run(options, "loopback", reports).runs[0].notes.empty());
  for (RankReport& one : reports) one.steps[0].skipped = one.steps[1].skipped = true;
  EXPECT_EQ(summarise_run(options, "loopback", reports).runs[0].notes,
            (std::vector<std::string>{"2 of 3 updates skipped: gradients had infinities"}));
}

// The server's memory does not count as a rank's.
TEST(Summary, MemoryIsOfTheRankThatNeedsMost) {
  TrainOptions options;
  options.strategy = RunStrategy::ps_sync;
  options.steps = 1;
  std::vector<RankReport> reports{report(0, {{0, 1}}), report(1, {{0, 1}}), report(2, {})};
  reports[0].memory.peak = 5;
  reports[1].memory.peak = 7;
  reports[2].memory.peak = 100;
  const RealRun p = summarise_run(options, "loopback", reports).runs[0];
  EXPECT_EQ(p.memory.allocated, 7);
  EXPECT_EQ(p.memory.reserved, 0);
}

TEST(Summary, RanksThatEndedDifferentlyAreAnError) {
  TrainOptions options;
  options.steps = 1;
  std::vector<RankReport> reports{report(0, {{0, 1}}), report(1, {{0, 1}})};
  EXPECT_NO_THROW(summarise_run(options, "loopback", reports));
  reports[1].checksum = {1, 2.5};
  try {
    summarise_run(options, "loopback", reports);
    ADD_FAILURE() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 ended with other parameters than rank 0"));
  }
  reports[0].checksum = reports[1].checksum = {nan, nan};  // both diverged, together
  EXPECT_NO_THROW(summarise_run(options, "loopback", reports));
}

TEST(RankReport, SurvivesJson) {
  RankReport before = report(1, {{1.25, 2.5}, {2.5, 3.0000000001}});
  before.steps[1].loss = nan;
  before.steps[1].skipped = true;
  before.memory.parameters = 1;
  before.memory.buffers = 2;
  before.memory.optimizer_state = 3;
  before.memory.peak = 6;
  before.memory.reserved = 7;
  before.updates = {{0.5, 1, 3}};
  before.checksum = {0.1, nan};
  before.test_right = 3;
  before.test_judged = 4;
  const RankReport after = rank_report_from_json(to_json(before));
  EXPECT_EQ(after.rank, 1);
  ASSERT_EQ(after.steps.size(), 2u);
  EXPECT_EQ(after.steps[0].begin, 1.25);
  EXPECT_EQ(after.steps[1].end, 3.0000000001);
  EXPECT_EQ(after.steps[0].loss, 3.5);
  EXPECT_TRUE(std::isnan(after.steps[1].loss));
  EXPECT_FALSE(after.steps[0].skipped);
  EXPECT_TRUE(after.steps[1].skipped);
  EXPECT_EQ(after.memory.parameters, 1);
  EXPECT_EQ(after.memory.buffers, 2);
  EXPECT_EQ(after.memory.optimizer_state, 3);
  EXPECT_EQ(after.memory.peak, 6);
  EXPECT_EQ(after.memory.reserved, 7);
  ASSERT_EQ(after.updates.size(), 1u);
  EXPECT_EQ(after.updates[0].worker, 1);
  EXPECT_EQ(after.updates[0].staleness, 3);
  EXPECT_EQ(after.checksum[0], 0.1);
  EXPECT_TRUE(std::isnan(after.checksum[1]));
  EXPECT_EQ(after.test_right, 3);
  EXPECT_EQ(after.test_judged, 4);
}

TEST(RankReport, HalfAFileIsAnError) {
  const std::string text = to_json(report(0, {{0, 1}}));
  EXPECT_THROW(rank_report_from_json(text.substr(0, text.size() / 2)), std::runtime_error);
  EXPECT_THROW(rank_report_from_json(""), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::summary_test
