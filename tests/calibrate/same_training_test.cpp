// Do real DDP, FSDP and parameter-server runs compute the same training?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/run_ranks.hpp"
#include "memory/step_memory.hpp"
#include "results/participants.hpp"

namespace lockstep::same_training_test {
namespace {

struct Net {
  const char* name;
  Words options;
};

class SynchronousRuns : public testing::TestWithParam<Net> {};

// The learning rate is so large that five updates change the loss by far more than the allowed
// difference.
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
  const Words each_step{"--every", "1", "--outer-rate", "1", "--outer-momentum", "0"};
  compare("diloco", run(common + each_step + Words{"--strategy", "diloco"}, 2));
  compare("fedavg", run(common + each_step + Words{"--strategy", "fedavg"}, 3));
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

std::vector<double> losses(const RankReport& report) {
  std::vector<double> result;
  for (const RankStep& step : report.steps) result.push_back(step.loss);
  return result;
}

TEST(DiLoCoRuns, OfOneRankAreSequentialSgdBitForBit) {
  const Words common{"--model", "lenet5",  "--ranks", "1",         "--steps",
                     "6",       "--batch", "8",       "--warm-up", "3"};
  const auto plain = run(common + Words{"--strategy", "ddp"}, 1);
  const auto local = run(common + Words{"--strategy", "diloco", "--every", "3"}, 1);
  EXPECT_EQ(losses(plain[0]), losses(local[0]));
  EXPECT_EQ(plain[0].checksum, local[0].checksum);
}

// The simulation draws the same workers for a round as the real run, and all workers end with the
// server's parameters.
TEST(FedAvgRuns, TrainWithTheParticipantsThatAreDrawn) {
  const Words options{"--strategy", "fedavg", "--model", "lenet5", "--batch",        "4",
                      "--ranks",    "3",      "--every", "2",      "--participants", "33%",
                      "--steps",    "7",      "--seed",  "5",      "--warm-up",      "1"};
  const auto once = run(options, 4), again = run(options, 4);
  const std::vector<ScheduledPush>& pushes = once[3].pushes;
  ASSERT_EQ(pushes.size(), 3u + 12u);  // 2 and 8 steps of each of three ranks
  for (std::size_t round = 0; round < pushes.size(); ++round) {
    const auto version = static_cast<std::int64_t>(round);
    EXPECT_TRUE(participants(3, 1, 5, version)[static_cast<std::size_t>(pushes[round].worker)]);
    EXPECT_EQ(pushes[round].read, version);
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(losses(once[rank]), losses(again[rank]));
    EXPECT_EQ(once[rank].checksum, again[0].checksum);
  }
}

// A single rank has no buckets, as the prediction for one GPU assumes. With several ranks they are
// as large as the gradients, and so as the parameters.
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

}  // namespace
}  // namespace lockstep::same_training_test
