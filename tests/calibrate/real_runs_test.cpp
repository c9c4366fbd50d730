// Do real DDP, FSDP and parameter-server runs compute the same training, and are the asynchronous
// ones as stale as theory says? Every rank is a process, as in `lockstep-calibrate train`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calibrate/command.hpp"
#include "memory/step_memory.hpp"
#include "runs/slowness.hpp"
#include "runs/train_options.hpp"
#include "strategies/stragglers.hpp"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

// The reports of `processes` ranks of one run.
std::vector<RankReport> run(const Words& options, int processes) {
  const RunFolder folder;
  std::vector<RankProcess> ranks = pinned_ranks(processes, [&](int rank) {
    Words words{"train"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--rank", std::to_string(rank), "--store", folder.file("store"),
                               "--result", folder.result_file(rank)});
    return words;
  });
  for (RankProcess& rank : ranks) rank.program = LOCKSTEP_CALIBRATE;
  const LaunchEnd end = run_processes(ranks);
  if (end.how != LaunchEnd::How::finished) throw std::runtime_error(end.message);
  std::vector<RankReport> reports;
  for (int rank = 0; rank < processes; ++rank) {
    reports.push_back(rank_report_from_json(text_of(folder.result_file(rank))));
  }
  return reports;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Net {
  const char* name;
  Words options;
};

class SynchronousRuns : public testing::TestWithParam<Net> {};

// The learning rate is large so that five updates change the loss by far more than the bound.
TEST_P(SynchronousRuns, TrainTheSameNetwork) {
  const Words common = GetParam().options + Words{"--steps", "4", "--warm-up",       "2",
                                                  "--batch", "8", "--learning-rate", "0.1"};
  const auto ddp = run(common + Words{"--strategy", "ddp"}, 2);
  ASSERT_EQ(ddp.size(), 2u);
  ASSERT_EQ(ddp[0].steps.size(), 4u);
  EXPECT_GT(std::abs(ddp[0].steps[0].loss / ddp[0].steps[3].loss - 1), 1e-3);
  EXPECT_NE(ddp[0].steps[0].loss, ddp[1].steps[0].loss) << "ranks have the same batch";
  EXPECT_EQ(ddp[0].checksum, ddp[1].checksum);
  const auto compare = [&](const std::string& what, const std::vector<RankReport>& other) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(other[rank].steps.size(), 4u) << what;
      for (std::size_t i = 0; i < 4; ++i) {
        const double expected = ddp[rank].steps[i].loss;
        EXPECT_NEAR(other[rank].steps[i].loss, expected, 1e-5 * expected)
            << what << " rank " << rank << " step " << i;
      }
      ASSERT_EQ(other[rank].checksum.size(), 2u);
      const double magnitude = ddp[0].checksum[1];
      EXPECT_NEAR(other[rank].checksum[0], ddp[0].checksum[0], 1e-5 * magnitude) << what;
      EXPECT_NEAR(other[rank].checksum[1], magnitude, 1e-5 * magnitude) << what;
    }
  };
  compare("ddp, bucket views",
          run(common + Words{"--strategy", "ddp", "--gradient-as-bucket-view"}, 2));
  compare("fsdp", run(common + Words{"--strategy", "fsdp"}, 2));
  compare("fsdp shard-grad-op", run(common + Words{"--strategy", "fsdp", "--shard-grad-op"}, 2));
  const auto server = run(common + Words{"--strategy", "ps-sync"}, 3);
  compare("ps-sync", server);
  ASSERT_EQ(server[2].updates.size(), 4u);
  for (const ServerUpdate& update : server[2].updates) EXPECT_EQ(update.staleness, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, SynchronousRuns,
    testing::Values(Net{"lenet5", {"--model", "lenet5"}},
                    Net{"gpt",
                        {"--model", "gpt", "--set", "layers=2", "--set", "hidden=64", "--set",
                         "heads=2", "--set", "vocabulary=100", "--set", "sequence=16"}}),
    [](const testing::TestParamInfo<Net>& one) { return std::string(one.param.name); });

const Words lenet{"--model", "lenet5", "--batch", "4", "--ranks", "3", "--warm-up", "3"};

// A single rank has no buckets, as the prediction for one GPU has none: they are as large as the
// gradients, which are as large as the parameters.
TEST(DdpRuns, HaveBucketsWithSeveralRanksOnly) {
  const Words common{"--strategy", "ddp", "--model", "lenet5", "--steps", "2", "--batch", "8"};
  const auto one = run(common + Words{"--ranks", "1"}, 1);
  const auto two = run(common + Words{"--ranks", "2"}, 2);
  StepOptions options;
  options.samples = 8;
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 4;  // momentum
  Device cpu;
  cpu.architecture = Architecture::cpu;
  const TrainingStep step = build_step(*load_model("lenet5"), options);
  EXPECT_NEAR(one[0].memory.peak / step_memory(step, plan, cpu).allocated, 1, 0.02);
  plan.replicated.bucket_bytes = {4.0 * static_cast<double>(step.parameter_count)};
  for (const RankReport& rank : two) {
    EXPECT_NEAR(rank.memory.peak / step_memory(step, plan, cpu).allocated, 1, 0.02);
  }
}

// Every update of one worker makes every other worker's next one staler by one.
TEST(AsynchronousRuns, AreAsStaleAsThereAreOtherWorkers) {
  const auto reports = run(lenet + Words{"--strategy", "ps-async", "--steps", "40"}, 4);
  const auto& updates = reports.back().updates;
  // Workers that are under way when the server has enough push once more.
  ASSERT_GE(updates.size(), 3u * 40u);
  ASSERT_LE(updates.size(), 3u * 40u + 2);
  double sum = 0;
  for (const ServerUpdate& update : updates) sum += static_cast<double>(update.staleness);
  EXPECT_NEAR(sum / static_cast<double>(updates.size()), 2, 0.2);
  for (std::size_t i = 1; i < updates.size(); ++i) EXPECT_GE(updates[i].time, updates[i - 1].time);
}

// Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
// 2013: each of the others is at most s ahead and s behind, and has one push on its way.
TEST(AsynchronousRuns, KeepTheBoundOfStaleSynchronousTraining) {
  for (const int bound : {0, 2}) {
    const auto reports =
        run(lenet + Words{"--strategy", "ps-ssp", "--staleness-bound", std::to_string(bound),
                          "--steps", "20", "--slow-rank", "2:4"},
            4);
    const auto& updates = reports.back().updates;
    ASSERT_GE(updates.size(), 3u * 20u);
    ASSERT_LE(updates.size(), 3u * 20u + 2);
    std::int64_t most = 0;
    for (const ServerUpdate& update : updates) most = std::max(most, update.staleness);
    EXPECT_LE(most, 2 * (2 * bound + 1)) << "bound " << bound;
    EXPECT_GE(most, 1) << "bound " << bound;
  }
}

// Of the quickest steps, which other processes on the machine disturb least.
TEST(SlowRank, TakesSoManyTimesAsLong) {
  const auto reports = run({"--model", "lenet5", "--batch", "256", "--steps", "15", "--strategy",
                            "ddp", "--slow-rank", "1:2"},
                           2);
  const auto quickest = [](const RankReport& report) {
    double least = INFINITY;
    for (const RankStep& step : report.steps) least = std::min(least, step.forward);
    return least;
  };
  EXPECT_GT(quickest(reports[1]), 1.6 * quickest(reports[0]));
  EXPECT_LT(quickest(reports[1]), 2.6 * quickest(reports[0]));
}

// The device here takes 10 ms for what it was given: those are slept for, too.
TEST(SlowRank, PaysForWhatTheDeviceStillHasToDo) {
  bool under_way = true;
  Slowness slowness([&] {
    if (under_way) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    under_way = false;
  });
  const auto start = std::chrono::steady_clock::now();
  slowness.begin(4);
  slowness.pay();
  EXPECT_GE(seconds_since(start), 0.04);
}

TEST(SlowRank, WaitsForNoDeviceUnlessItIsSlow) {
  Slowness slowness([] { ADD_FAILURE() << "waited"; });
  slowness.begin(1);
  slowness.pay();
  slowness.pause();
}

TEST(SlowRank, JittersAsInTheSimulator) {
  TrainOptions options;
  options.seed = 7;
  options.jitter = 0.1;
  options.slow_ranks[1] = 1.5;
  const Jitter law = ShiftedExponential{0.1};
  for (const int rank : {0, 1, 2}) {
    for (const int step : {0, 1, 99}) {
      const double expected = (rank == 1 ? 1.5 : 1) * draw(law, 7, rank, step);
      EXPECT_DOUBLE_EQ(slowness_factor(options, rank, step), expected);
    }
  }
  EXPECT_NE(slowness_factor(options, 0, 0), slowness_factor(options, 0, 1));
  options.jitter = 0;
  EXPECT_EQ(slowness_factor(options, 0, 5), 1);
}

}  // namespace
}  // namespace lockstep
