// Does the two-queue arithmetic equal a plain replay of host and device, and which of the two
// limits the step in which case?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "costs/host.hpp"
#include "costs/roofline_costs.hpp"
#include "kernel_test_device.hpp"

namespace lockstep::host_queue_test {
namespace {

struct Item {
  double issue, device;
};

// Kernel i starts when the device is free and the host has issued it (fact 128).
double replay(const std::vector<Item>& items) {
  double host = 0, device = 0;
  for (const Item& item : items) {
    host += item.issue;
    device = std::max(device, host) + item.device;
  }
  return device;
}

std::vector<Item> any_items(int most) {
  std::vector<Item> items(static_cast<std::size_t>(*rc::gen::inRange(1, most)));
  for (Item& item : items)
    item = {*rc::gen::inRange(0, 1000) * 1e-6, *rc::gen::inRange(1, 1000) * 1e-6};
  return items;
}

QueuedWork fold(const std::vector<Item>& items) {
  QueuedWork work;
  for (const Item& item : items)
    work = append(work, {item.issue, item.device, item.issue + item.device});
  return work;
}

RC_GTEST_PROP(QueuedWorkProperty, FoldEqualsReplay, ()) {
  const auto items = any_items(40);
  RC_ASSERT(std::abs(fold(items).span - replay(items)) < 1e-12);
}

RC_GTEST_PROP(QueuedWorkProperty, AppendIsAssociative, ()) {
  const QueuedWork a = fold(any_items(10)), b = fold(any_items(10)), c = fold(any_items(10));
  const QueuedWork left = append(append(a, b), c), right = append(a, append(b, c));
  RC_ASSERT(std::abs(left.span - right.span) < 1e-12);
  RC_ASSERT(std::abs(left.host - right.host) < 1e-12);
  RC_ASSERT(std::abs(left.busy - right.busy) < 1e-12);
}

RC_GTEST_PROP(QueuedWorkProperty, EqualLaunchesOfOneOperatorEqualReplay, ()) {
  const int launches = *rc::gen::inRange(1, 30);
  const double host = *rc::gen::inRange(1, 1000) * 1e-6, busy = *rc::gen::inRange(1, 1000) * 1e-6;
  const QueuedWork work = queued(host, 0, 1, launches, busy);
  const std::vector<Item> items(static_cast<std::size_t>(launches),
                                {host / launches, busy / launches});
  RC_ASSERT(std::abs(work.span - replay(items)) < 1e-12);
}

TEST(HostQueue, ViewCostsTheHostButNotTheDevice) {
  const QueuedWork view = queued(5e-6, 3e-6, 2, 0, 0);
  EXPECT_DOUBLE_EQ(view.host, 10e-6);
  EXPECT_EQ(view.busy, 0);
  const QueuedWork kernel = queued(5e-6, 3e-6, 1, 1, 20e-6);
  EXPECT_DOUBLE_EQ(append(view, kernel).span, 35e-6);
}

Machine round_machine() {
  Machine machine;
  machine.device = round_device();
  machine.host.dispatch_seconds = 10e-6;
  machine.host.launch_seconds = 4e-6;
  return machine;
}

TrainingStep elementwise_step(double bytes) {
  TrainingStep step;
  Kernel kernel;
  kernel.bytes_read = kernel.bytes_written = bytes / 2;
  Layer layer;
  layer.forward = {kernel};
  layer.backward = {kernel, kernel};
  step.layers.assign(50, layer);
  step.parameter_count = 1000;
  return step;
}

// The work of a whole step: all layers forward, all backward, then the optimizer.
QueuedWork whole_step(const TrainingStep& step, const ComputeCosts& costs) {
  QueuedWork forward, backward;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const LayerCost layer = costs.layer(step, i);
    forward = append(forward, layer.forward);
    backward = append(layer.backward, backward);
  }
  return append(append(forward, backward),
                costs.optimizer({}, step.precision, static_cast<double>(step.parameter_count), 0));
}

TEST(HostQueue, TinyWorkIsBoundByTheHostAndLargeWorkByTheDevice) {
  const RooflineCosts costs(round_machine());
  const QueuedWork small = whole_step(elementwise_step(1e3), costs);
  EXPECT_LT(small.busy, small.host);
  EXPECT_LT(small.span - small.host, 0.05 * small.host);
  const QueuedWork large = whole_step(elementwise_step(1e9), costs);
  EXPECT_GT(large.busy, 10 * large.host);
  EXPECT_LT(large.span - large.busy, 0.01 * large.busy);
  EXPECT_DOUBLE_EQ(small.host, large.host);
}

TEST(HostQueue, BackwardOperatorsAreTheFrameworksOwnUnlessGiven) {
  const HostSpec host;
  Framework framework;
  const HostRates pytorch = host_rates(host, framework);
  EXPECT_DOUBLE_EQ(pytorch.backward_operator, 0.82 * host.dispatch_seconds);
  EXPECT_LT(pytorch.plain_operator, pytorch.backward_operator);
  framework.name = FrameworkKind::megatron;
  const HostRates megatron = host_rates(host, framework);
  EXPECT_DOUBLE_EQ(megatron.backward_operator, 0.42 * megatron.forward_operator);
  framework.backward_share = 0.5;
  const HostRates given = host_rates(host, framework);
  EXPECT_DOUBLE_EQ(given.backward_operator, 0.5 * given.forward_operator);
  EXPECT_DOUBLE_EQ(given.plain_operator, given.backward_operator);
}

// An operator of an update in a loop costs the host `update_share` of a module's operator; an
// operator of a grouped update costs as much as a module's.
TEST(HostQueue, AnUpdateInALoopHasOperatorsOfItsOwn) {
  Framework framework;
  framework.update_share = 0.25;
  const RooflineCosts costs(round_machine(), framework);
  const auto host = [&](OptimizerImplementation implementation) {
    const OptimizerSpec sgd{.momentum = 0.9, .implementation = implementation};
    const QueuedWork work = costs.optimizer(sgd, Precision::fp32, 1e6, 100);
    const OptimizerTraffic traffic = optimizer_traffic(sgd, Precision::fp32, 1e6, 100);
    return (work.host - 4e-6 * (traffic.launches - traffic.operators)) / traffic.operators;
  };
  EXPECT_NEAR(host(OptimizerImplementation::for_loop), 2.5e-6, 1e-12);
  EXPECT_NEAR(host(OptimizerImplementation::fused), 10e-6, 1e-12);
}

// Only kernel time beyond the launch floors is exposed to interference: arithmetic and traffic add
// up to the busy time minus the floors.
TEST(LayerCost, IsArithmeticTrafficAndFloors) {
  const RooflineCosts costs(round_machine());
  TrainingStep step = elementwise_step(1e6);
  Kernel product;
  product.kind = KernelKind::gemm;
  product.m = product.n = product.k = 512;
  product.flops = 2.0 * 512 * 512 * 512;
  product.bytes_read = product.bytes_written = 1e3;
  step.layers[0].forward.push_back(product);
  for (const bool checkpointed : {false, true}) {
    step.layers[0].checkpointed = checkpointed;
    const LayerCost cost = costs.layer(step, 0);
    const double floors = (checkpointed ? 6 : 4) * 2e-6;
    EXPECT_GT(cost.arithmetic, 0);
    EXPECT_GT(cost.streaming, 0);
    EXPECT_NEAR(cost.arithmetic + cost.streaming + floors, cost.forward.busy + cost.backward.busy,
                1e-15);
    EXPECT_GT(floors, 0.1 * (cost.forward.busy + cost.backward.busy));
  }
}

TEST(HostQueue, CheckpointedLayerRunsItsForwardAgain) {
  const RooflineCosts costs(round_machine());
  TrainingStep step = elementwise_step(1e9);
  const LayerCost plain = costs.layer(step, 0);
  step.layers[0].checkpointed = true;
  const LayerCost checkpointed = costs.layer(step, 0);
  EXPECT_NEAR(checkpointed.backward.busy, plain.backward.busy + plain.forward.busy, 1e-12);
  EXPECT_NEAR(checkpointed.backward.host, plain.backward.host + plain.forward.host, 1e-12);
  EXPECT_EQ(checkpointed.backward.provenance, Provenance::modelled);
}

TEST(HostQueue, KeptProductIsNotComputedAgainButItsCastIs) {
  const RooflineCosts costs(round_machine());
  TrainingStep step = elementwise_step(1e9);
  const LayerCost cast = costs.layer(step, 0);
  Kernel product;
  product.kind = KernelKind::gemm;
  product.m = product.n = product.k = 512;
  product.flops = 2.0 * 512 * 512 * 512;
  product.bytes_read = product.bytes_written = 1e3;
  step.layers[0].forward.push_back(product);
  const LayerCost plain = costs.layer(step, 0);
  step.layers[0].checkpointed = step.layers[0].keeps_output = true;
  const LayerCost kept = costs.layer(step, 0);
  EXPECT_NEAR(kept.backward.busy, plain.backward.busy + cast.forward.busy, 1e-12);
  EXPECT_LT(cast.forward.busy, 0.99 * plain.forward.busy);
}

}  // namespace
}  // namespace lockstep::host_queue_test
