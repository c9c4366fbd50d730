// Does an FSDP rank hold what a calculation by hand says? Sizes are multiples of 2 MiB above 10
// MiB.
#include "sharded.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lockstep::sharded_test {
namespace {

// Six layers of 48 MiB in fp32, one unit each, on four ranks; activations small enough to see past.
constexpr double w = 48 * mib, shard = w / 4, a = 512;
constexpr int count = 6;
TrainingStep network() {
  return chain(count, a, 12 * 1024 * 1024);
}

Sharded sharded(int version, int ranks = 4, bool keep = false) {
  return sharded(network(), version, ranks, keep);
}

// The activations of 512 B each are a handful of blocks: below 16 KiB.
void expect_about(double actual, double expected) {
  EXPECT_GE(actual, expected);
  EXPECT_LT(actual, expected + 16 * kib);
}

TEST(ShardedMemory, Fsdp1HoldsTwoUnitsAndOneGradientInBackward) {
  const StepMemory memory = sharded_memory(network(), sharded(1), bare_gpu());
  // Backward of fc1: own parameters, those of fc0 prefetched, its gradient, and five sharded
  // gradients with the new one still to come; at fc0 no prefetch, six shards.
  expect_about(memory.allocated, count * shard + 2 * w + w + 4 * shard);
  EXPECT_EQ(memory.moment, "backward of fc1");
  EXPECT_EQ(memory.at_peak.at("gathered parameters"), 2 * w);
  EXPECT_EQ(memory.at_peak.at("parameters"), count * shard);
  // What is freed but still used by other streams: one gathered unit (three in all, fact 34), and
  // up to three gradients being reduced, because the last unit prefetches nothing and so never
  // waits.
  EXPECT_GE(memory.reserved, memory.allocated + 3 * w);
  EXPECT_LT(memory.reserved, memory.allocated + 4 * w + 32 * mib);
}

TEST(ShardedMemory, OnAHostAReductionHoldsItsInputUntilTheNextUnitIsThere) {
  Device host = bare_gpu();
  host.architecture = Architecture::cpu;
  const StepMemory memory = sharded_memory(network(), sharded(1), host);
  // As on the GPU, and the gradient of fc2 that is being reduced.
  expect_about(memory.allocated, count * shard + 2 * w + 2 * w + 4 * shard);
  EXPECT_EQ(memory.moment, "backward of fc1");
  EXPECT_EQ(memory.at_peak.at("gradients"), 2 * w + 4 * shard);
  EXPECT_EQ(memory.reserved, memory.allocated);
}

TEST(ShardedMemory, Fsdp1JoinsTheGradientsOfAUnitIntoOne) {
  TrainingStep step = network();
  for (int i = 0; i < count; ++i) step.layers[i].block = "h." + std::to_string(i / 2);
  const StepMemory memory = sharded_memory(step, sharded(step, 1), bare_gpu());
  // Middle unit: its parameters and the first unit's, gradients apart and joined (fact 40), one
  // shard.
  expect_about(memory.allocated, count * shard + 2 * (2 * w) + 2 * (2 * w) + 2 * shard);
}

TEST(ShardedMemory, Fsdp2CopiesOutAndKeepsOneReduction) {
  const StepMemory memory = sharded_memory(network(), sharded(2), bare_gpu());
  // Backward of fc1: its parameters, fc0's collective output, its gradient, the input of fc2's
  // reduce-scatter still in flight, four sharded gradients (facts 50-53).
  expect_about(memory.allocated, count * shard + w + w + w + w + 4 * shard);
  EXPECT_EQ(memory.at_peak.at("temporaries"), w);
}

TEST(ShardedMemory, Fsdp2ForwardHoldsTwoCollectiveOutputsAndACopy) {
  TrainingStep step = network();
  for (Layer& layer : step.layers) layer.backward.clear();
  for (Layer& layer : step.layers) layer.parameters[0].trainable = false;
  const StepMemory memory = sharded_memory(step, sharded(step, 2), bare_gpu());
  expect_about(memory.allocated, count * shard + 2 * w);
  EXPECT_EQ(memory.at_peak.at("gathered parameters"), 2 * w);
}

TEST(ShardedMemory, ShardGradOpKeepsAllParametersUntilBackward) {
  const StepMemory memory = sharded_memory(network(), sharded(1, 4, true), bare_gpu());
  EXPECT_EQ(memory.at_peak.at("gathered parameters"), count * w);
  EXPECT_EQ(memory.moment, "backward of fc5");
  expect_about(memory.allocated, count * shard + count * w + w);
}

TEST(ShardedMemory, NoShardIsTheWholeModelWithoutGathering) {
  const StepMemory memory = sharded_memory(network(), sharded(1, 1), bare_gpu());
  EXPECT_EQ(memory.at_peak.count("gathered parameters"), 0u);
  expect_about(memory.allocated, 2 * count * w);
}

TEST(ShardedMemory, MixedPrecisionGathersHalfAndKeepsFullShards) {
  Sharded plan = sharded(2);
  plan.layout.gather_bytes = 2;
  plan.layout.reduce_bytes = 2;
  const StepMemory memory = sharded_memory(network(), plan, bare_gpu());
  expect_about(memory.allocated, count * shard + 4 * (w / 2) + 4 * shard);
}

// FSDP1 casts a unit's half-precision gradient before its reduction: beside it, the next unit's
// parameters in halves, and the four shards before it; its own comes when the half one is gone.
TEST(ShardedMemory, Fsdp1ReducesInFullWhatItGathersInHalf) {
  Sharded plan = sharded(1);
  plan.layout.gather_bytes = 2;
  plan.layout.reduce_bytes = 4;
  const StepMemory memory = sharded_memory(network(), plan, bare_gpu());
  expect_about(memory.allocated, count * shard + w / 2 + w / 2 + w + 4 * shard);
  EXPECT_EQ(memory.at_peak.at("temporaries"), w);
}

TEST(ShardedMemory, RootUnitStaysGathered) {
  Sharded plan = sharded(1);
  const double before = sharded_memory(network(), plan, bare_gpu()).allocated;
  FsdpUnit& root = plan.layout.units[0];
  root.root = true;
  root.last = count - 1;
  const StepMemory memory = sharded_memory(network(), plan, bare_gpu());
  // Backward of fc2: root, own, the next one; fc1 is the last that can be prefetched.
  expect_about(memory.allocated, before + w - shard);
  EXPECT_EQ(memory.moment, "backward of fc2");
}

// A unit is joined and reduced after the unit before it has been differentiated.
TEST(ShardedMemory, ForwardPrefetchHoldsTheGradientsOfTwoUnits) {
  Sharded plan = sharded(1);
  const StepMemory without = sharded_memory(network(), plan, bare_gpu());
  plan.layout.options.forward_prefetch = true;
  const StepMemory with = sharded_memory(network(), plan, bare_gpu());
  EXPECT_GE(with.at_peak.at("gradients"), without.at_peak.at("gradients") + w - shard);
}

// FSDP1's handles keep the reduced gradients until backward is over; FSDP2's parameters do not.
TEST(ShardedMemory, OffloadLeavesUnitsInFlightAndReducedGradients) {
  Sharded plan = sharded(1);
  plan.layout.options.cpu_offload = true;
  plan.optimizer.state_bytes_per_element = 8;
  const StepMemory memory = sharded_memory(network(), plan, bare_gpu());
  EXPECT_EQ(memory.at_peak.count("optimizer state"), 0u);
  EXPECT_EQ(memory.at_peak.count("parameters"), 0u);
  EXPECT_LE(memory.allocated, 3 * w + (2 + count) * shard + 16 * kib);
  EXPECT_GE(memory.allocated, 3 * w + 2 * shard);
  plan.layout.options.version = 2;
  EXPECT_LT(sharded_memory(network(), plan, bare_gpu()).at_peak.at("gradients"),
            memory.at_peak.at("gradients"));
}

TEST(ShardedMemory, AccumulationWithoutSyncKeepsUnshardedGradients) {
  Sharded plan = sharded(1);
  plan.micro_batches = 4;
  const double synced = sharded_memory(network(), plan, bare_gpu()).allocated;
  plan.layout.options.sync_every_micro_batch = false;
  const StepMemory memory = sharded_memory(network(), plan, bare_gpu());
  // Six whole gradients wait; two units gathered, and one fresh gradient.
  expect_about(memory.allocated, count * shard + count * w + 2 * w + w);
  EXPECT_GT(memory.allocated, synced + 3 * w);
}

TEST(ShardedMemory, OptimizerStateIsOfTheShards) {
  Sharded plan = sharded(1);
  const double stateless = sharded_memory(network(), plan, bare_gpu()).allocated;
  plan.optimizer.state_bytes_per_element = 8;
  EXPECT_EQ(sharded_memory(network(), plan, bare_gpu()).allocated, stateless + 2 * count * shard);
}

TEST(ShardedMemory, WithoutTheRateLimiterTheHostRunsAheadOfTheDevice) {
  Sharded plan = sharded(1);
  const StepMemory limited = sharded_memory(network(), plan, bare_gpu());
  plan.layout.options.limit_all_gathers = false;
  const StepMemory unlimited = sharded_memory(network(), plan, bare_gpu());
  EXPECT_EQ(unlimited.allocated, limited.allocated);
  EXPECT_GT(unlimited.reserved, limited.reserved + 2 * w);
}

}  // namespace
}  // namespace lockstep::sharded_test
