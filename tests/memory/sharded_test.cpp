// Does an FSDP rank need the memory that a calculation by hand gives? Sizes are multiples of 2 MiB
// above 10 MiB.
#include "sharded.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lockstep::sharded_test {
namespace {

// Six layers of 48 MiB in fp32, one unit each, on four ranks. Activations are so small that they
// hardly count.
constexpr double w = 48 * mib, shard = w / 4, a = 512;
constexpr int count = 6;
TrainingStep network() {
  return chain(count, a, 12 * 1024 * 1024);
}

Sharded sharded(int version, int ranks = 4, bool keep = false) {
  return sharded(network(), version, ranks, keep);
}

// Allows for the activations: a handful of blocks of 512 B, below 16 KiB.
void expect_about(double actual, double expected) {
  EXPECT_GE(actual, expected);
  EXPECT_LT(actual, expected + 16 * kib);
}

TEST(ShardedMemory, Fsdp1HoldsTwoUnitsAndOneGradientInBackward) {
  const StepMemory memory = sharded_memory(network(), sharded(1), bare_gpu());
  // The peak is fc1's backward: its own parameters, fc0's prefetched ones, fc1's fresh gradient,
  // and four sharded gradients. (In fc0's backward nothing is prefetched, but five sharded
  // gradients are there.)
  expect_about(memory.allocated, count * shard + 2 * w + w + 4 * shard);
  EXPECT_EQ(memory.moment, "backward of fc1");
  EXPECT_EQ(memory.at_peak.at("gathered parameters"), 2 * w);
  EXPECT_EQ(memory.at_peak.at("parameters"), count * shard);
  // Blocks that are freed but still used by other streams stay reserved: one gathered unit (three
  // in all, fact 34) and up to three gradients in reduction. The last unit prefetches nothing, so
  // the host never waits there.
  EXPECT_GE(memory.reserved, memory.allocated + 3 * w);
  EXPECT_LT(memory.reserved, memory.allocated + 4 * w + 32 * mib);
}

TEST(ShardedMemory, OnAHostAReductionHoldsItsInputUntilTheNextUnitIsThere) {
  Device host = bare_gpu();
  host.architecture = Architecture::cpu;
  const StepMemory memory = sharded_memory(network(), sharded(1), host);
  // As on the GPU, plus the gradient of fc2, which is still being reduced.
  expect_about(memory.allocated, count * shard + 2 * w + 2 * w + 4 * shard);
  EXPECT_EQ(memory.moment, "backward of fc1");
  EXPECT_EQ(memory.at_peak.at("gradients"), 2 * w + 4 * shard);
  EXPECT_EQ(memory.reserved, memory.allocated);
}

TEST(ShardedMemory, Fsdp1JoinsTheGradientsOfAUnitIntoOne) {
  TrainingStep step = network();
  for (int i = 0; i < count; ++i) step.layers[i].block = "h." + std::to_string(i / 2);
  const StepMemory memory = sharded_memory(step, sharded(step, 1), bare_gpu());
  // In the backward of the middle unit there are its parameters and the first unit's, its gradients
  // apart and joined (fact 40), and one sharded gradient.
  expect_about(memory.allocated, count * shard + 2 * (2 * w) + 2 * (2 * w) + 2 * shard);
}

TEST(ShardedMemory, Fsdp2CopiesOutAndKeepsOneReduction) {
  const StepMemory memory = sharded_memory(network(), sharded(2), bare_gpu());
  // In fc1's backward there are its parameters, the output of fc0's all-gather, fc1's gradient, the
  // input of fc2's reduce-scatter in flight, and four sharded gradients (facts 50-53).
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

// FSDP1 casts a unit's half-precision gradient to fp32 before the reduction. At that moment there
// are also the next unit's half-precision parameters and four sharded gradients; the unit's own
// shard is allocated after the half-precision gradient is freed.
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
  // In fc2's backward there are the root's, fc2's and fc1's parameters; fc1 is the last unit that
  // can be prefetched.
  expect_about(memory.allocated, before + w - shard);
  EXPECT_EQ(memory.moment, "backward of fc2");
}

// With forward prefetch a unit's gradients are joined and reduced only after the backward of the
// unit before.
TEST(ShardedMemory, ForwardPrefetchHoldsTheGradientsOfTwoUnits) {
  Sharded plan = sharded(1);
  const StepMemory without = sharded_memory(network(), plan, bare_gpu());
  plan.layout.options.forward_prefetch = true;
  const StepMemory with = sharded_memory(network(), plan, bare_gpu());
  EXPECT_GE(with.at_peak.at("gradients"), without.at_peak.at("gradients") + w - shard);
}

// FSDP1 keeps the reduced gradients until backward is over; FSDP2 does not.
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
  // Six unsharded gradients wait, two units are gathered, and one gradient is fresh.
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
