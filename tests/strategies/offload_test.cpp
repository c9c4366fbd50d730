// Does an offloaded optimizer follow its closed forms, facts H109 to H117 (docs/facts-meshes.md)?
#include "strategies/common/offload.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/errors.hpp"
#include "costs/collective.hpp"
#include "costs/optimizer.hpp"
#include "toy_job.hpp"

namespace lockstep::offload_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

constexpr double near = 1e-9;
constexpr double elements = 40e6;  // of the toy job's four layers
constexpr double forward = 4 * 1e-3, backward = 4 * 2e-3;
constexpr double device_copies = 2 * 4 * elements / 1e12;  // of the gradients into their buckets

// One GPU with Adam in fp32 and one bucket, which is full when backward ends: nothing overlaps
// unless an option says so.
Job one_gpu() {
  Job job = toy_job(4, 10e6, 1);
  job.optimizer.name = OptimizerKind::adam;
  job.machine.host.memory_bandwidth = 200e9;
  job.machine.host.sockets = 1;
  job.machine.host.memory_bytes = 512e9;
  job.machine.host.nvme = {6e9, 3e9, 1e12};
  return job;
}

ZeroOptions offloaded() {
  ZeroOptions options;
  options.stage = 2;
  options.bucket_bytes = 1e9;
  options.offload.optimizer = OffloadTier::host;
  return options;
}

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

double copy(const Job& job, double bytes) {
  return host_device_copy(job.machine, bytes).seconds(bytes);
}

// Seconds of the fused update on the host, and of the copy that goes to the device.
double on_host(const Job& job, double count = elements) {
  OptimizerSpec fused = job.optimizer;
  fused.implementation = OptimizerImplementation::fused;
  return host_optimizer_seconds(fused, job.step->precision, count, job.machine.host) +
         host_stream_seconds(4 * count, job.machine.host);
}

// Gradients go down, the host updates, parameters go up. The step is the sum, as DeepSpeed orders
// these stages (fact H109).
TEST(Offload, TheStepIsTheSumOfItsStages) {
  const Job job = one_gpu();
  const Numbers result = simulate(job, offloaded());
  const double expected = forward + backward + device_copies + copy(job, 4 * elements) +
                          on_host(job) + copy(job, 4 * elements);
  EXPECT_LT(relative(result.step, expected), near);
  EXPECT_LT(relative(sum(result.split), result.step), near);
  EXPECT_LT(relative(result.split.optimizer, on_host(job)), near);
  // The device is busy only in forward, backward and its copies.
  EXPECT_LT(result.busy, forward + backward + device_copies + 1e-6 + 2 * copy(job, 4 * elements));
}

// A delayed update runs beside the next step, so the longer of the two counts (ZeRO-Offload,
// section 5.2).
TEST(Offload, ADelayedUpdateHidesBehindTheNextStep) {
  Job job = one_gpu();
  ZeroOptions options = offloaded();
  options.offload.delayed_update = true;
  const double compute = forward + backward + device_copies + copy(job, 4 * elements);
  const auto step = [&](double bandwidth) {
    job.machine.host.memory_bandwidth = bandwidth;
    return simulate(job, options).step;
  };
  EXPECT_LT(relative(step(2e12), compute), near);
  const double slow = step(50e9), update = on_host(job) + copy(job, 4 * elements);
  ASSERT_GT(update, compute);
  EXPECT_LT(relative(slow, update), near);
}

// The ranks of a node share the bandwidth of its memory: together they take as long as one rank
// with the whole update.
TEST(Offload, RanksOfANodeShareItsMemory) {
  Job job = one_gpu();
  const double alone = simulate(job, offloaded()).split.optimizer;
  job.mesh.data = 8;
  EXPECT_LT(relative(simulate(job, offloaded()).split.optimizer, alone), near);
  // Eight ranks are on one node first, and then on eight nodes with a memory each.
  job.machine.gpus_per_node = 1;
  EXPECT_LT(relative(simulate(job, offloaded()).split.optimizer, alone / 8), near);
}

// The memory of a process lies on one socket, so one rank uses one socket's bandwidth.
TEST(Offload, OneRankReachesOneSocket) {
  Job job = one_gpu();
  const double one_socket = simulate(job, offloaded()).split.optimizer;
  job.machine.host.sockets = 2;
  EXPECT_LT(relative(simulate(job, offloaded()).split.optimizer, 2 * one_socket), near);
  job.mesh.data = 2;
  EXPECT_LT(relative(simulate(job, offloaded()).split.optimizer, one_socket), near);
}

// With Megatron-LM's option the master parameters stay on the device (fact H121b): 8 of 12 bytes
// leave it.
TEST(Offload, MasterParametersMayStayOnTheDevice) {
  Job job = one_gpu();
  edit_step(job).precision = Precision::master_bf16;
  ZeroOptions options = offloaded();
  const double all = make_strategy(options)->memory(job).allocated;
  options.offload.keep_master = true;
  EXPECT_NEAR(make_strategy(options)->memory(job).allocated - all, 4 * elements, 1e6);
}

// With a fraction, host and device update at the same time (Twin-Flow, fact H113).
TEST(Offload, AFractionLeavesTheRestToTheDevice) {
  const Job job = one_gpu();
  ZeroOptions options = offloaded();
  double before = simulate(job, options).step;
  for (const double fraction : {0.75, 0.5, 0.25, 0.0}) {
    options.offload.fraction = fraction;
    const double step = simulate(job, options).step;
    EXPECT_LT(step, before) << fraction;
    before = step;
  }
  EXPECT_EQ(before, simulate(job, ZeroOptions{.stage = 2, .bucket_bytes = 1e9}).step);
}

// Each later micro-batch fetches the sum of gradients and brings it back (fact H109).
TEST(Offload, AccumulationMovesGradientsTwiceMore) {
  Job job = one_gpu();
  const double one = simulate(job, offloaded()).traffic;
  job.accumulation = 3;
  const double three = simulate(job, offloaded()).traffic;
  const double gradients = 4 * elements, parameters = 4 * elements;
  EXPECT_LT(relative(three / one, (5 * gradients + parameters) / (gradients + parameters)), 1e-6);
}

TEST(Offload, TheStateLeavesTheDeviceAndTheHostCanRunOut) {
  Job job = one_gpu();
  const auto strategy = [&](const ZeroOptions& options) { return make_strategy(options); };
  ZeroOptions plain;
  plain.stage = 2;
  plain.bucket_bytes = 1e6;
  ZeroOptions away = offloaded();
  away.bucket_bytes = 1e6;
  const MemoryUse on_device = strategy(plain)->memory(job), use = strategy(away)->memory(job);
  // The moments, their temporaries and the gradients leave the device.
  EXPECT_GT(on_device.allocated - use.allocated, (8 + 4) * elements);
  // Pinned memory has 4 bytes of gradients and 4 of parameters; 8 bytes of moments come on top.
  EXPECT_NEAR(use.host - use.host_rounding, (4 + 4 + 8) * elements, 1);
  EXPECT_TRUE(fits_host(use));
  job.machine.host.memory_bytes = 400e6;
  EXPECT_FALSE(fits_host(strategy(away)->memory(job)));
}

// --- ZeRO-3 and ZeRO-Infinity

FsdpOptions sharded(OffloadTier optimizer, OffloadTier parameters) {
  FsdpOptions options;
  options.version = 2;
  options.offload.optimizer = optimizer;
  options.offload.parameters = parameters;
  return options;
}

// With slow drives the step is bytes over bandwidth. Moments and gradients are read and written
// once. A layer's shard is read before forward and before backward (fact H116), the root's before
// forward only; each is written once.
TEST(Offload, SlowDrivesBoundTheStep) {
  Job job = one_gpu();
  job.machine.host.nvme = {1e6, 2e6, 0};
  const double parameters = 4 * elements, gradients = 4 * elements, moments = 8 * elements;
  const auto bound = [&](double read, double written) { return read / 1e6 + written / 2e6; };
  const double optimizer = simulate(job, sharded(OffloadTier::nvme, OffloadTier::host)).step;
  EXPECT_LT(relative(optimizer, bound(moments + gradients, moments + gradients)), 1e-3);
  FsdpOptions options = sharded(OffloadTier::nvme, OffloadTier::nvme);
  const double written = parameters + moments + gradients;
  EXPECT_LT(relative(simulate(job, options).step, bound(written, written)), 1e-3);
  options.wrap = {WrapPolicy::size, 1};
  EXPECT_LT(relative(simulate(job, options).step, bound(parameters + written, written)), 1e-3);
}

// Twice as many nodes have twice the bandwidth of drives; twice as many ranks of a node do not.
TEST(Offload, DrivesOfAllNodesWorkTogether) {
  Job job = one_gpu();
  job.machine.host.nvme = {1e6, 1e6, 0};
  job.machine.gpus_per_node = 2;
  const FsdpOptions options = sharded(OffloadTier::nvme, OffloadTier::nvme);
  const double one_rank = simulate(job, options).step;
  job.mesh.data = 2;
  const double one_node = simulate(job, options).step;
  EXPECT_LT(relative(one_node, one_rank), 1e-3);
  job.mesh.data = 8;
  EXPECT_LT(relative(simulate(job, options).step, one_node / 4), 1e-3);
}

// The update's sub-groups overlap: while one is read, another is updated and a third is written.
// The longest stage counts once for each sub-group, the other stages once (fact H115).
TEST(Offload, OverlappingSubGroupsTakeTheLongestStage) {
  const Job job = one_gpu();
  FsdpOptions options = sharded(OffloadTier::nvme, OffloadTier::host);
  const double serial = simulate(job, options).step;
  options.offload.overlap = true;
  options.offload.sub_group = elements / 4;
  const double part = elements / 4;
  const double read = 12 * part / 6e9, write = 8 * part / 3e9, update = on_host(job, part);
  ASSERT_GT(write, read);
  ASSERT_GT(write, update);
  EXPECT_LT(relative(serial - simulate(job, options).step, 3 * (read + update)), near);
}

TEST(Offload, StateOnDrivesIsCountedThere) {
  Job job = one_gpu();
  FsdpOptions options = sharded(OffloadTier::nvme, OffloadTier::host);
  const MemoryUse use = make_strategy(options)->memory(job);
  EXPECT_NEAR(use.nvme, (8 + 4) * elements, 1);
  EXPECT_TRUE(fits_nvme(use));
  options.offload.parameters = OffloadTier::nvme;
  EXPECT_NEAR(make_strategy(options)->memory(job).nvme, (8 + 4 + 4) * elements, 1);
  job.machine.host.nvme.capacity_bytes = 1e6;
  EXPECT_FALSE(fits(make_strategy(options)->memory(job)));
}

// Chunks take 14 bytes for each parameter in half precision: a gradient has no place of its own,
// and sizes are not rounded to powers of two (fact H120).
TEST(Offload, ChunksHoldFourteenBytesAParameter) {
  Job job = one_gpu();
  TrainingStep half = *job.step;
  half.precision = Precision::pure_fp16;
  job.step = std::make_shared<const TrainingStep>(half);
  FsdpOptions options = sharded(OffloadTier::host, OffloadTier::host);
  const MemoryUse apart = make_strategy(options)->memory(job);
  EXPECT_NEAR(apart.host - apart.host_rounding, (2 + 4 + 12) * elements, 1);
  const double uses = simulate(job, options).step;
  options.offload.chunks = true;
  const MemoryUse chunks = make_strategy(options)->memory(job);
  EXPECT_NEAR(chunks.host - chunks.host_rounding, 14 * elements, 1);
  EXPECT_EQ(chunks.host, 14 * chunk_elements);  // one chunk of each list
  EXPECT_EQ(chunk_bytes(chunk_elements + 1, 2), 4 * chunk_elements);
  // Gradients travel in half precision: two bytes less for each.
  EXPECT_LT(relative(uses - simulate(job, options).step,
                     copy(job, 4 * elements) - copy(job, 2 * elements)),
            near);
}

TEST(Offload, NvmeThatThePlatformDoesNotDescribeIsRefused) {
  Job job = one_gpu();
  job.machine.host.nvme = {};
  EXPECT_THROW(make_strategy(sharded(OffloadTier::nvme, OffloadTier::host))->simulate(job),
               ConfigError);
}

TEST(Offload, FartherTiersFreeDeviceMemoryAndCostTime) {
  Job job = one_gpu();
  job.mesh.data = 8;
  double step = 0, step_on_device = 0, device = 1e18;
  for (const auto& options : {sharded(OffloadTier::device, OffloadTier::device),
                              sharded(OffloadTier::host, OffloadTier::device),
                              sharded(OffloadTier::host, OffloadTier::host),
                              sharded(OffloadTier::nvme, OffloadTier::host),
                              sharded(OffloadTier::nvme, OffloadTier::nvme)}) {
    const Numbers result = simulate(job, options);
    const MemoryUse use = make_strategy(options)->memory(job);
    // Shards on the host hide their copies a little better than the copy of an update to the
    // device.
    EXPECT_GT(result.step, 0.99 * step);
    EXPECT_GT(result.step, step_on_device);
    EXPECT_LE(use.device, device);
    step = result.step;
    if (step_on_device == 0) step_on_device = step;
    device = use.device;
  }
}

}  // namespace
}  // namespace lockstep::offload_test
