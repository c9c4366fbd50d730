// Does Horovod's thread fuse the tensors that are ready when it looks, and does a step take the
// resulting time?
#include "strategies/ddp/horovod.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costs/collective.hpp"
#include "strategies/common/mesh_groups.hpp"
#include "toy_job.hpp"

namespace lockstep::testing::horovod_test {
namespace {

constexpr double near = 1e-9;

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

// `count` tensors of `elements` fp32 values, one per layer.
std::vector<GradientTensor> equal_tensors(int count, double elements) {
  std::vector<GradientTensor> tensors;
  for (int i = 0; i < count; ++i) tensors.push_back({elements, 4, {}, i});
  return tensors;
}

// When gradients are ready: the last layer's first; each takes the host `host` seconds and the
// device `device` seconds.
std::vector<GradientReady> every(int count, double host, double device) {
  std::vector<GradientReady> ready;
  for (int i = 0; i < count; ++i) ready.push_back({(count - i) * host, (count - i) * device});
  return ready;
}

std::vector<std::size_t> sizes(const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> result;
  for (const Bucket& bucket : buckets) result.push_back(bucket.tensors.size());
  return result;
}

// If the host is far ahead, it has issued all tensors when the thread looks. Only the threshold
// limits a bucket, and the bucket waits for its data.
TEST(Horovod, FusesEqualTensorsUpToTheThreshold) {
  const double bytes = 4e6;
  const auto buckets = fuse_when_ready(equal_tensors(10, bytes / 4), every(10, 0, 1e-3),
                                       {.cycle = 1e-3, .threshold = 3.5 * bytes}, 1e-4);
  EXPECT_THAT(sizes(buckets), ::testing::ElementsAre(3, 3, 3, 1));
  for (const Bucket& bucket : buckets) EXPECT_EQ(bucket.delay, 0);
  EXPECT_EQ(buckets[0].ready_after, 7);
  EXPECT_EQ(buckets[0].bytes, 3 * bytes);
}

// If the host sets the pace, the thread finds `cycle / interval` new tensors each time. It looks
// half a cycle after the first tensor on average. Negotiation delays each bucket.
TEST(Horovod, FusesWhatACycleBrings) {
  const double interval = 0.1e-3, negotiation = 0.25e-3;
  const auto buckets = fuse_when_ready(equal_tensors(36, 1), every(36, interval, interval),
                                       {.cycle = 1.02e-3, .threshold = 1e9}, negotiation);
  EXPECT_THAT(sizes(buckets), ::testing::ElementsAre(6, 10, 10, 10));
  // The thread first looks at 0.61 ms and finds six tensors.
  EXPECT_LT(relative(buckets[0].delay, 0.61e-3 + negotiation - 6 * interval), near);
  EXPECT_LT(relative(buckets[3].delay, 0.61e-3 + 3 * 1.02e-3 + negotiation - 36 * interval), near);
}

TEST(Horovod, LeavesATensorAboveTheThresholdAlone) {
  std::vector<GradientTensor> tensors = equal_tensors(5, 10);
  tensors[2].elements = 1000;
  const auto buckets =
      fuse_when_ready(tensors, every(5, 0, 1e-3), {.cycle = 1e-3, .threshold = 100}, 0);
  EXPECT_THAT(sizes(buckets), ::testing::ElementsAre(2, 1, 2));
  EXPECT_THAT(sizes(fuse_when_ready(tensors, every(5, 0, 1e-3), {1e-3, 0}, 0)),
              ::testing::ElementsAre(1, 1, 1, 1, 1));
}

TEST(Horovod, FusesNumbersOfOneSizeOnly) {
  std::vector<GradientTensor> tensors = equal_tensors(4, 10);
  tensors[1].element_bytes = 2;
  EXPECT_THAT(sizes(fuse_when_ready(tensors, every(4, 0, 1e-3), {}, 0)),
              ::testing::ElementsAre(2, 1, 1));
}

DdpOptions horovod(double cycle, double threshold) {
  DdpOptions options;
  options.fusion = HorovodFusion{cycle, threshold};
  return options;
}

// With one buffer for all gradients nothing overlaps, and the all-reduce has a copy before and
// after it.
TEST(Horovod, AStepWithOneBufferIsTheSumOfItsParts) {
  const Job job = toy_job(4, 10e6, 8);
  const double gradients = 4 * 40e6, copy = 2 * gradients / 1e12;
  const double reduced =
      collective_cost(job.machine, gradient_group(job), Collective::all_reduce, gradients)
          .seconds();
  EXPECT_LT(relative(simulate(job, horovod(1e-3, 1e12)).step,
                     4 * (1e-3 + 2e-3) + copy + reduced + copy + 1e-3),
            near);
  // The host issues all tensors at once, and the cycle is longer than backward: the buffer leaves
  // half a cycle and a negotiation after that.
  const double cycle = 40e-3, seen = cycle / 2 + negotiation_seconds(job);
  EXPECT_LT(relative(simulate(job, horovod(cycle, 1e12)).step, seen + copy + reduced + copy + 1e-3),
            near);
}

// The optimizer waits on the host, so the host cannot issue the next forward meanwhile. Four layers
// take the host 6 ms, and the last one's kernel 1 ms. The device alone would take 1 ms for the
// update and 4 ms for forward, so the step is 2 ms longer.
TEST(Horovod, TheHostWaitsForTheGradients) {
  Job job = toy_job(4, 10e6, 8);
  const double at_once = simulate(job, horovod(1e-3, 1e12)).step;
  auto costs = std::make_shared<ToyCosts>();
  costs->forward = {1.5e-3, 1e-3, 2.5e-3};
  job.costs = costs;
  EXPECT_LT(relative(simulate(job, horovod(1e-3, 1e12)).step, at_once + 2e-3), near);
}

// Without fusion each tensor is reduced in place.
TEST(Horovod, WithoutFusionNothingIsCopied) {
  const Job job = toy_job(4, 10e6, 8);
  const double reduced =
      collective_cost(job.machine, gradient_group(job), Collective::all_reduce, 40e6).seconds();
  ASSERT_LT(reduced, 2e-3);
  EXPECT_LT(relative(simulate(job, horovod(0, 0)).step, 4 * (1e-3 + 2e-3) + reduced + 1e-3), 2e-2);
}

}  // namespace
}  // namespace lockstep::testing::horovod_test
