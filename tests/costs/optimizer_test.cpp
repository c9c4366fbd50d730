// Are optimizer state, traffic and launches those of the published algorithms?
#include "costs/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "costs/roofline_costs.hpp"
#include "kernel_test_device.hpp"

namespace lockstep::optimizer_test {
namespace {

OptimizerSpec spec(OptimizerKind kind, OptimizerImplementation implementation,
                   double momentum = 0) {
  OptimizerSpec o;
  o.name = kind;
  o.implementation = implementation;
  o.momentum = momentum;
  return o;
}

constexpr auto fused = OptimizerImplementation::fused;
constexpr auto foreach = OptimizerImplementation::foreach;
constexpr auto for_loop = OptimizerImplementation::for_loop;

double bytes(const OptimizerSpec& o, Precision precision = Precision::fp32) {
  return optimizer_traffic(o, precision, 1e6, 10).bytes_per_parameter;
}

TEST(Optimizer, FusedMovesTheIdealBytes) {  // fact 137
  EXPECT_EQ(bytes(spec(OptimizerKind::sgd, fused)), 12);
  EXPECT_EQ(bytes(spec(OptimizerKind::sgd, fused, 0.9)), 20);
  EXPECT_EQ(bytes(spec(OptimizerKind::adam, fused)), 28);
  EXPECT_EQ(bytes(spec(OptimizerKind::adamw, fused)), 28);
  // An fp32 copy of the gradients with the scale removed, the update of p, m and v, and the master
  // copy's cast to 16 bits.
  EXPECT_EQ(bytes(spec(OptimizerKind::adam, fused), Precision::pure_fp16), 6 + 8 + 28 + 6);
  // bf16 has no loss scale, and fp32 gradients need no copy.
  EXPECT_EQ(bytes(spec(OptimizerKind::adam, fused), Precision::master_bf16), 6 + 28 + 6);
  EXPECT_EQ(bytes(spec(OptimizerKind::adam, fused), Precision::master_bf16_fp32_gradients), 28 + 6);
}

TEST(Optimizer, ForeachAdamMovesTwoToFourTimesTheIdeal) {  // fact 138
  const double ratio =
      bytes(spec(OptimizerKind::adam, foreach)) / bytes(spec(OptimizerKind::adam, fused));
  EXPECT_GE(ratio, 2);
  EXPECT_LE(ratio, 4);
}

TEST(Optimizer, ClippingLaunchesGrowWithTensorsAndElements) {  // fact 138: 36 tensors a launch
  EXPECT_EQ(clipping_launches(1e3, 1), 2);                     // the norm, the scaling
  EXPECT_EQ(clipping_launches(1e3, 36), 2);
  EXPECT_EQ(clipping_launches(1e3, 37), 4);
  EXPECT_EQ(clipping_launches(1e3, 360), 20);
  EXPECT_EQ(clipping_launches(2 * 320 * 65536.0, 1), 4);
}

TEST(Optimizer, StateIsMomentaAndMasterCopy) {
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::sgd, fused), Precision::fp32), 0);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::sgd, fused, 0.9), Precision::amp_fp16), 4);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::adamw, fused), Precision::amp_bf16), 8);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::adam, fused), Precision::pure_fp16), 12);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::adam, fused), Precision::pure_bf16), 4);
  for (const Precision master : {Precision::master_bf16, Precision::master_bf16_fp32_gradients}) {
    EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::adam, fused), master), 12);
  }
  EXPECT_EQ(optimizer_temporary_bytes(spec(OptimizerKind::adam, fused), Precision::master_bf16), 4);
  EXPECT_EQ(optimizer_temporary_bytes(spec(OptimizerKind::adam, fused),
                                      Precision::master_bf16_fp32_gradients),
            0);
}

TEST(Optimizer, LionRmspropAndLambKeepAndMoveWhatTheirPapersSay) {
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::lion, foreach), Precision::fp32), 4);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::rmsprop, foreach), Precision::fp32), 4);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::rmsprop, foreach, 0.9), Precision::fp32), 8);
  EXPECT_EQ(optimizer_state_bytes(spec(OptimizerKind::lamb, foreach), Precision::fp32), 8);
  EXPECT_EQ(bytes(spec(OptimizerKind::lion, fused)), 20);
  // LAMB moves Adam's 28 bytes, reads gradients for their norm, writes the update and reads it for
  // its norm and for the step, and reads the parameter for its norm and for the step.
  EXPECT_EQ(bytes(spec(OptimizerKind::lamb, fused)), 28 + 4 + 3 * 4 + 2 * 4);
  EXPECT_EQ(bytes(spec(OptimizerKind::lion, foreach)), 8 + 12 + 8 + 12 + 8 + 12);
  EXPECT_EQ(bytes(spec(OptimizerKind::rmsprop, foreach)), 8 + 12 + 8 + 8 + 16);
  // LAMB is Adam plus two norms and a separate step.
  EXPECT_EQ(bytes(spec(OptimizerKind::lamb, foreach)) - bytes(spec(OptimizerKind::adam, foreach)),
            12 + 4 + 4 + 12 - 16);
}

// A separate operation reads its operands and writes its result, 4 bytes of fp32 for each tensor
// element.
TEST(Optimizer, SeparateOperationsMoveTheirBytesEach) {
  const auto decayed = [](OptimizerKind kind, double momentum = 0) {
    OptimizerSpec o = spec(kind, foreach, momentum);
    o.weight_decay = 0.1;
    return bytes(o);
  };
  const double sgd = 12, momentum = 8 + 12 + 12;
  const double rmsprop = 8 + 12 + 8 + 8;
  const double adam = 12 + 8 + 12 + 8 + 8 + 8 + 16;
  EXPECT_EQ(bytes(spec(OptimizerKind::sgd, foreach)), sgd);
  EXPECT_EQ(bytes(spec(OptimizerKind::sgd, foreach, 0.9)), momentum);
  EXPECT_EQ(bytes(spec(OptimizerKind::rmsprop, foreach)), rmsprop + 16);
  EXPECT_EQ(bytes(spec(OptimizerKind::rmsprop, foreach, 0.9)), rmsprop + 8 + 16 + 12);
  EXPECT_EQ(bytes(spec(OptimizerKind::adam, foreach)), adam);
  EXPECT_EQ(bytes(spec(OptimizerKind::adamw, foreach)), adam);
  // Weight decay adds the weights to the gradients, or shrinks the weights.
  EXPECT_EQ(decayed(OptimizerKind::sgd, 0.9), momentum + 12);
  EXPECT_EQ(decayed(OptimizerKind::adam), adam + 12);
  EXPECT_EQ(decayed(OptimizerKind::adamw), adam + 8);
  EXPECT_EQ(decayed(OptimizerKind::lion), bytes(spec(OptimizerKind::lion, foreach)) + 8);
  EXPECT_EQ(decayed(OptimizerKind::lamb), bytes(spec(OptimizerKind::lamb, foreach)) + 12);
}

TEST(Optimizer, ForLoopLaunchesPerTensorAndFusedDoesNot) {
  const auto loop =
      optimizer_traffic(spec(OptimizerKind::adam, for_loop), Precision::fp32, 1e6, 160);
  const auto one = optimizer_traffic(spec(OptimizerKind::adam, fused), Precision::fp32, 1e6, 160);
  const auto each =
      optimizer_traffic(spec(OptimizerKind::adam, foreach), Precision::fp32, 1e6, 160);
  EXPECT_EQ(loop.launches, 7 * 160);
  EXPECT_EQ(loop.operators, 7 * 160);
  EXPECT_EQ(one.operators, 1);
  EXPECT_LT(one.launches, each.launches);
  EXPECT_LT(each.launches, loop.launches);
}

TEST(Optimizer, OnlyLossScalingSynchronises) {
  EXPECT_TRUE(optimizer_synchronises(Precision::amp_fp16));
  EXPECT_FALSE(optimizer_synchronises(Precision::amp_bf16));
  EXPECT_FALSE(optimizer_synchronises(Precision::fp32));
  EXPECT_GT(bytes(spec(OptimizerKind::sgd, foreach), Precision::amp_fp16),
            bytes(spec(OptimizerKind::sgd, foreach), Precision::amp_bf16));
}

TEST(Optimizer, HostUpdateIsBoundByHostMemory) {
  HostSpec host;
  host.memory_bandwidth = 100e9;
  EXPECT_NEAR(host_optimizer_seconds(spec(OptimizerKind::adam, fused), Precision::fp32, 1e9, host),
              28e9 / 80e9, 1e-12);
}

TEST(Optimizer, LargeFusedStepTakesItsBytesOverBandwidth) {
  Machine machine;
  machine.device = round_device();
  machine.device.clock_hz = 1e15;  // issuing loads is never the limit
  const RooflineCosts costs(machine);
  const QueuedWork work =
      costs.optimizer(spec(OptimizerKind::adam, fused), Precision::fp32, 1e9, 100);
  const double launches = std::ceil(1e9 / (320 * 65536.0));
  EXPECT_NEAR(work.busy, 28e9 / 1.6e12 + launches * (2e-6 + KernelLaw{}.stream_ramp_seconds), 1e-9);
  EXPECT_EQ(costs.optimizer(spec(OptimizerKind::adam, fused), Precision::fp32, 0, 0).busy, 0);
}

}  // namespace
}  // namespace lockstep::optimizer_test
