// Are gradients bucketed as DDP's reducer does it (facts 1-8)?
#include "strategies/ddp/buckets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "strategies/ddp/plan.hpp"

namespace lockstep::buckets_test {
namespace {

using testing::ElementsAre;

constexpr double kib = 1024;

// One fp32 tensor per layer, with these sizes in KiB.
std::vector<GradientTensor> tensors_of(const std::vector<double>& kibibytes) {
  std::vector<GradientTensor> tensors;
  for (const double size : kibibytes) {
    tensors.push_back({size * kib / 4, 4, {}, static_cast<int>(tensors.size())});
  }
  return tensors;
}

std::vector<std::vector<int>> contents(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<int>> result;
  for (const Bucket& bucket : buckets) result.push_back(bucket.tensors);
  return result;
}

DdpOptions caps(double first, double rest) {
  DdpOptions options;
  options.first_bucket_bytes = first * kib;
  options.bucket_bytes = rest * kib;
  return options;
}

TEST(Buckets, CloseOnceTheyHoldTheirCapAndNeverSplitATensor) {
  const auto plan = plan_buckets(tensors_of({10, 700, 20, 30, 5, 8}), caps(10, 40));
  // Gradients arrive from tensor 5 down. The first bucket closes at 8 + 5 = 13 >= 10 KiB, the next
  // ones at 30 + 20 = 50 >= 40 and at 700; tensor 0 is left over.
  EXPECT_THAT(contents(plan.later),
              ElementsAre(ElementsAre(5, 4), ElementsAre(3, 2), ElementsAre(1), ElementsAre(0)));
  EXPECT_EQ(plan.later[1].bytes, 50 * kib);
  EXPECT_EQ(plan.later[1].ready_after, 2);
}

TEST(Buckets, AreOneInTheFirstStep) {
  const auto plan = plan_buckets(tensors_of({10, 700, 20}), caps(10, 40));
  EXPECT_THAT(contents(plan.first), ElementsAre(ElementsAre(2, 1, 0)));
  EXPECT_EQ(plan.first[0].ready_after, 0);
}

TEST(Buckets, FollowDefinitionOrderBackwardsWhenUnusedParametersAreSought) {
  DdpOptions options = caps(10, 40);
  options.find_unused_parameters = true;
  const auto plan = plan_buckets(tensors_of({10, 30, 20, 30, 5, 8}), options);
  // With unused parameters, the buckets follow the order of definition (0 | 1, 2 | 3, 4, 5) and are
  // launched from the back, so the smallest one is launched last.
  EXPECT_THAT(contents(plan.first),
              ElementsAre(ElementsAre(3, 4, 5), ElementsAre(1, 2), ElementsAre(0)));
  EXPECT_THAT(contents(plan.later), testing::Eq(contents(plan.first)));
  options.static_graph = true;
  EXPECT_EQ(plan_buckets(tensors_of({10, 30}), options).first.size(), 1u);
}

TEST(Buckets, DoNotMixElementSizes) {
  std::vector<GradientTensor> tensors = tensors_of({10, 10, 10, 10});
  tensors[1].element_bytes = tensors[3].element_bytes = 2;
  const auto buckets = cut_buckets(tensors, {3, 2, 1, 0}, {12 * kib, 100 * kib});
  EXPECT_THAT(contents(buckets), ElementsAre(ElementsAre(2, 0), ElementsAre(3, 1)));
}

TEST(Buckets, HoldEveryGradientOnce) {
  TrainingStep step;
  step.layers.resize(3);
  step.layers[0].parameters = {{"embed", {100, 8}, 800, true}};
  step.layers[1].parameters = {{"weight", {8, 8}, 64, true}, {"frozen", {8}, 8, false}};
  step.layers[2].parameters = {{"embed", {100, 8}, 800, true}, {"bias", {5}, 5, true}};
  const auto tensors = gradient_tensors(step, 4);
  ASSERT_EQ(tensors.size(), 3u);
  // A tied weight is complete only after the backward of its first use.
  EXPECT_THAT(arrival_order(tensors), ElementsAre(2, 1, 0));
  const auto plan = plan_buckets(tensors, {});
  double elements = 0;
  for (const Bucket& bucket : plan.later) elements += bucket.elements;
  EXPECT_EQ(elements, 869);
}

// With bf16 gradients ResNet-50 sends half of fp32's bytes; the option overrides the precision.
TEST(Buckets, CountBytesAsTheyGoOverTheWire) {
  EXPECT_EQ(ddp_gradient_bytes({}, Precision::amp_fp16), 4);  // fact 22
  EXPECT_EQ(ddp_gradient_bytes({}, Precision::pure_bf16), 2);
  EXPECT_EQ(ddp_gradient_bytes({}, Precision::master_bf16), 2);
  EXPECT_EQ(ddp_gradient_bytes({}, Precision::master_bf16_fp32_gradients), 4);
  DdpOptions options;
  options.gradient_bytes = 2;
  EXPECT_EQ(ddp_gradient_bytes(options, Precision::fp32), 2);
}

}  // namespace
}  // namespace lockstep::buckets_test
