// Does simulated DDP follow its closed forms and PyTorch's rules? The numbers of facts refer to
// docs/facts.md.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "costs/collective.hpp"
#include "results/schedule.hpp"
#include "strategies/ddp/buckets.hpp"
#include "toy_job.hpp"

namespace lockstep::ddp_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

constexpr double near = 1e-9;
constexpr double mib = 1024.0 * 1024.0;

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

double all_reduce_seconds(const Job& job, double bytes) {
  return collective_cost(job.machine, group_of(job.machine, job.mesh.gpus()),
                         Collective::all_reduce, bytes)
      .seconds();
}

std::shared_ptr<ToyCosts> free_copies() {
  auto costs = std::make_shared<ToyCosts>();
  costs->stream_bytes_per_second = 1e30;
  return costs;
}

DdpOptions one_bucket() {
  DdpOptions options;
  options.first_bucket_bytes = options.bucket_bytes = 1e15;
  return options;
}

TEST(Ddp, WithOneBucketIsTheSumOfItsParts) {
  const Job job = toy_job();
  const double gradients = 4 * 40e6;
  const double copy = 2 * gradients / 1e12;
  const Numbers result = simulate(job, one_bucket());
  const double expected =
      4 * 1e-3 + 4 * 2e-3 + copy + all_reduce_seconds(job, gradients) + copy + 1e-3;
  EXPECT_LT(relative(result.step, expected), near);
  EXPECT_EQ(result.extrapolated, 1);
  EXPECT_LT(relative(result.split.exposed_communication, all_reduce_seconds(job, gradients)), near);
  EXPECT_LT(relative(sum(result.split), result.step), near);
  EXPECT_EQ(result.samples, 8 * 32);
}

// Fact 25: bucket b ends at end_b = max(ready_b, end_{b-1}) + T(b), with T(b) the time of its
// all-reduce.
TEST(Ddp, FollowsTheScheduleLaw) {
  for (const double elements : {0.5e6, 4e6, 60e6}) {
    const Job job = toy_job(12, elements, 16, free_copies());
    const Numbers result = simulate(job, DdpOptions{});
    const auto tensors = gradient_tensors(*job.step, 4);
    double end = 0;
    for (const Bucket& bucket : plan_buckets(tensors, {}).later) {
      const double ready = 12 * 1e-3 + (12 - bucket.ready_after) * 2e-3;
      end = std::max(ready, end) + all_reduce_seconds(job, bucket.bytes);
    }
    const double expected = std::max(end, 36e-3) + 1e-3;
    EXPECT_LT(relative(result.step, expected), near) << elements;
  }
}

// Fact 2: the first step reduces all gradients at its end; two small broadcasts follow (fact 3).
TEST(Ddp, DoesNotOverlapInTheFirstStep) {
  const Job job = toy_job(12, 4e6, 8, free_copies());
  const Numbers result = simulate(job, DdpOptions{});
  const double rebuild =
      2 * collective_cost(job.machine, group_of(job.machine, 8), Collective::broadcast, 4.0 * 12)
              .seconds();
  EXPECT_LT(relative(result.first, 37e-3 + all_reduce_seconds(job, 12 * 16e6) + rebuild), 1e-2);
  EXPECT_LT(result.step, result.first);
}

TEST(Ddp, OnOneGpuCommunicatesNothing) {
  const Numbers result = simulate(toy_job(4, 10e6, 1), DdpOptions{});
  EXPECT_LT(relative(result.step, 13e-3), near);
  EXPECT_EQ(result.traffic, 0);
  EXPECT_EQ(result.split.exposed_communication, 0);
}

TEST(Ddp, SendsWhatTheCollectivesSend) {
  const Job job = toy_job(6, 3e6, 16);
  const Numbers result = simulate(job, DdpOptions{});
  double expected = 0;
  for (const Bucket& bucket : plan_buckets(gradient_tensors(*job.step, 4), {}).later) {
    const auto cost = collective_cost(job.machine, group_of(job.machine, 16),
                                      Collective::all_reduce, bucket.bytes);
    for (const LinkLoad& load : cost.links) expected += load.total_bytes;
  }
  EXPECT_LT(relative(result.traffic, expected), near);
}

TEST(Ddp, CommunicatesOnlyInTheLastMicroBatch) {  // fact 17
  Job job = toy_job(8, 4e6, 8, free_copies());
  const Numbers once = simulate(job, DdpOptions{});
  job.accumulation = 4;
  const Numbers four = simulate(job, DdpOptions{});
  EXPECT_LT(relative(four.traffic, once.traffic), near);
  EXPECT_LT(relative(four.step, once.step + 3 * 24e-3), near);
  EXPECT_EQ(four.samples, 4 * once.samples);
}

TEST(Ddp, LaterMicroBatchesAddTheirGradientsToTheFirst) {
  auto costs = std::make_shared<ToyCosts>();
  Job job = toy_job(8, 4e6, 1, costs);
  const double once = simulate(job, DdpOptions{}).step;
  job.accumulation = 4;
  const double gradients = 8 * 4.0 * 4e6;  // read twice and written, in fp32
  EXPECT_LT(relative(simulate(job, DdpOptions{}).step,
                     once + 3 * (24e-3 + 3 * gradients / costs->stream_bytes_per_second)),
            near);
}

TEST(Ddp, MegatronDividesAndReducesOneBufferAfterBackward) {
  auto costs = std::make_shared<ToyCosts>();
  Job job = toy_job(12, 8e6, 8, costs);
  job.framework = FrameworkKind::megatron;
  DdpOptions options;
  options.overlap = false;
  const double bytes = 12 * 4.0 * 8e6;
  const double expected =
      37e-3 + all_reduce_seconds(job, bytes) + 2 * bytes / costs->stream_bytes_per_second;
  EXPECT_LT(relative(simulate(job, options).step, expected), 1e-6);
  EXPECT_EQ(make_strategy(options)->communication(job)["bucket_bytes"].size(), 1u);
}

TEST(Ddp, MegatronsHostWaitsBeforeEachMicroBatch) {
  const auto step = [](FrameworkKind framework) {
    const auto costs = std::make_shared<ToyCosts>();
    costs->forward = {2e-3, 1e-3, 2.5e-3};   // bound by the host
    costs->backward = {1e-3, 2e-3, 2.5e-3};  // bound by the device
    costs->stream_bytes_per_second = 1e30;
    Job job = toy_job(4, 4e6, 1, costs);
    job.accumulation = 4;
    job.framework = framework;
    return simulate(job, DdpOptions{}).step;
  };
  // In each micro-batch of Megatron-LM the host issues the four forwards first and then the four
  // backwards.
  EXPECT_GT(step(FrameworkKind::megatron), 4 * (4 * 2e-3 + 4 * 2e-3));
  EXPECT_LT(step(FrameworkKind::pytorch), 4 * (4 * 2e-3 + 4 * 2e-3));
}

TEST(Ddp, WithoutOverlapReducesAfterBackward) {
  const Job job = toy_job(12, 8e6, 8, free_copies());
  DdpOptions options;
  options.overlap = false;
  double reductions = 0;
  for (const Bucket& bucket : plan_buckets(gradient_tensors(*job.step, 4), {}).later) {
    reductions += all_reduce_seconds(job, bucket.bytes);
  }
  EXPECT_LT(relative(simulate(job, options).step, 37e-3 + reductions), near);
}

TEST(Ddp, BroadcastsBuffersBeforeForward) {  // fact 15
  Job job = toy_job(4, 10e6, 8, free_copies());
  const double without = simulate(job, DdpOptions{}).step;
  edit_step(job).layers[0].buffer_bytes = 8 * mib;
  edit_step(job).layers[0].buffers = 2;
  const double with = simulate(job, DdpOptions{}).step;
  const auto cost =
      collective_cost(job.machine, group_of(job.machine, 8), Collective::broadcast, 8 * mib);
  // The host needs 70 us to launch the broadcast, but it is that far ahead of the device.
  EXPECT_LT(relative(with - without, cost.seconds()), 1e-6);
  DdpOptions off;
  off.broadcast_buffers = false;
  EXPECT_LT(relative(simulate(job, off).step, without), near);
}

// With batch norm over all ranks, compute waits in every micro-batch while the statistics are
// gathered (forward) and their sums are reduced (backward).
TEST(Ddp, SharedStatisticsAreWaitedForInEveryBatchNorm) {
  for (const int accumulation : {1, 3}) {
    Job job = toy_job(4, 10e6, 8, free_copies());
    job.accumulation = accumulation;
    DdpOptions options = one_bucket();
    options.sync_batch_norm = true;
    const double none = simulate(job, options).step;  // the network has no batch norm here
    EXPECT_EQ(none, simulate(job, one_bucket()).step);
    const double channels[] = {64, 4096};
    double expected = 0;
    for (const int layer : {1, 2}) {
      const double sums = 2 * 4 * channels[layer - 1];
      edit_step(job).layers[layer].kind = "batch_norm";
      edit_step(job).layers[layer].saved = {{"statistics", sums}};
      const auto seconds = [&](Collective kind, double bytes) {
        return collective_cost(job.machine, group_of(job.machine, 8), kind, bytes).seconds();
      };
      expected +=
          seconds(Collective::all_gather, 8 * (sums + 4)) + seconds(Collective::all_reduce, sums);
    }
    EXPECT_LT(relative(simulate(job, options).step - none, accumulation * expected), 1e-6);
    // A layer that is recomputed in backward gathers its statistics a second time.
    const double plain = simulate(job, options).step;
    edit_step(job).layers[1].checkpointed = true;
    const double again = simulate(job, options).step - plain;
    const auto gathered = collective_cost(job.machine, group_of(job.machine, 8),
                                          Collective::all_gather, 8 * (8 * channels[0] + 4))
                              .seconds();
    EXPECT_LT(relative(again, accumulation * gathered), 1e-6);
    job.mesh.data = 1;
    EXPECT_EQ(simulate(job, options).step, simulate(job, one_bucket()).step);
  }
}

// A process group has one stream, so the statistics queue behind buckets that were launched
// earlier.
TEST(Ddp, SharedStatisticsQueueBehindBuckets) {
  Job job = toy_job(4, 100e6, 8, free_copies());
  edit_step(job).layers[0].kind = "batch_norm";
  edit_step(job).layers[0].saved = {{"statistics", 512}};
  DdpOptions options;
  options.sync_batch_norm = true;
  options.first_bucket_bytes = options.bucket_bytes = 1;  // each layer's gradients are a bucket
  DdpOptions alone = options;
  alone.sync_batch_norm = false;
  const auto seconds = [&](Collective kind, double bytes) {
    return collective_cost(job.machine, group_of(job.machine, 8), kind, bytes).seconds();
  };
  // Between the backwards of the last and of the first layer there are 2 ms; a bucket takes longer.
  ASSERT_GT(all_reduce_seconds(job, 400e6), 2e-3);
  const double own =
      seconds(Collective::all_gather, 8 * 516) + seconds(Collective::all_reduce, 512);
  EXPECT_GT(simulate(job, options).step - simulate(job, alone).step, own);
}

TEST(Ddp, CompressionHalvesTheBytes) {  // fact 20
  const Job job = toy_job();
  DdpOptions options;
  const Numbers plain = simulate(job, options);
  options.comm_hook = Fp16Hook{};
  EXPECT_LT(relative(simulate(job, options).traffic, plain.traffic / 2), 0.02);
  options.comm_hook = PowerSgdHook{};
  // A matrix of 1000 x 10000 becomes two factors with 1000 and 10000 elements.
  EXPECT_LT(relative(simulate(job, options).traffic, plain.traffic * 11000 / 10e6), 0.02);
}

TEST(Ddp, SaysWhatTheReplayDoesToGradients) {
  const Job job = toy_job();
  const auto described = [](const Job& of, const CommHook& hook, double element_bytes = 0) {
    DdpOptions options;
    options.first_bucket_bytes = options.bucket_bytes = 1;
    options.comm_hook = hook;
    options.gradient_bytes = element_bytes;
    UpdateSchedule schedule;
    make_strategy(options)->describe_updates(of, schedule);
    return schedule.mean;
  };
  EXPECT_TRUE(described(job, PlainHook{}).is_plain());
  EXPECT_EQ(described(job, PlainHook{}, 2).element, GradientElement::bf16);
  EXPECT_EQ(described(job, Fp16Hook{}, 2).element, GradientElement::fp16);
  EXPECT_EQ(described(job, PowerSgdHook{}).rank, 1);
  const CompressedMean top = described(job, TopKHook{0.25});
  EXPECT_EQ(top.fraction, 0.25);
  std::vector<int> parameters;
  for (const std::vector<int>& bucket : top.buckets) {
    EXPECT_EQ(bucket.size(), 1u);
    parameters.push_back(bucket.front());
  }
  EXPECT_EQ(parameters, arrival_order(gradient_tensors(*job.step, 4)));
  const CommHook one_bit = OneBitHook{};
  EXPECT_EQ(described(job, one_bit).compression, Compression::onebit);
  EXPECT_TRUE(described(toy_job(4, 10e6, 1), one_bit).is_plain());
}

// While a bucket travels in half precision, the copy lies beside the bucket. A layer's bucket of 40
// MB has a copy of 20 MB, in segments of 2 MiB.
TEST(Ddp, CompressionTakesMemory) {  // fact 20
  const Job job = toy_job();
  const auto allocated = [&](const CommHook& hook) {
    DdpOptions options;
    options.comm_hook = hook;
    return make_strategy(options)->memory(job).allocated;
  };
  const double plain = allocated(PlainHook{});
  EXPECT_EQ(allocated(Fp16Hook{}), plain + 20 * mib);
  EXPECT_EQ(allocated(Bf16Hook{}), plain + 20 * mib);
}

TEST(Ddp, BucketViewsSaveTheCopyBackOnly) {  // facts 12, 14
  const Job job = toy_job();
  DdpOptions options;
  const Numbers plain = simulate(job, options);
  options.gradient_as_bucket_view = true;
  const Numbers views = simulate(job, options);
  EXPECT_LT(relative(plain.split.copies, 2 * views.split.copies), near);
  EXPECT_LT(make_strategy(options)->memory(job).allocated,
            make_strategy(DdpOptions{})->memory(job).allocated - 100e6);
}

TEST(Ddp, StaticGraphWaitsOnlyInTheFirstStep) {  // fact 18
  const Job job = toy_job(12, 8e6);
  DdpOptions options;
  const Numbers plain = simulate(job, options);
  options.static_graph = true;
  const Numbers fixed = simulate(job, options);
  EXPECT_LT(relative(fixed.step, plain.step), near);
  EXPECT_GE(fixed.first, plain.first * (1 - near));
}

TEST(Ddp, SearchingUnusedParametersReducesABitmapToo) {  // fact 19
  const Job job = toy_job();
  DdpOptions options;
  options.find_unused_parameters = true;
  const auto plan = plan_buckets(gradient_tensors(*job.step, 4), options);
  const CommGroup group = group_of(job.machine, job.mesh.gpus());
  double expected = 0;
  for (const Bucket& bucket : plan.later) {
    for (const LinkLoad& load :
         collective_cost(job.machine, group, Collective::all_reduce, bucket.bytes).links) {
      expected += load.total_bytes;
    }
  }
  for (const LinkLoad& load :
       collective_cost(job.machine, group, Collective::all_reduce, 4.0 * 4).links) {
    expected += load.total_bytes;
  }
  EXPECT_LT(relative(simulate(job, options).traffic, expected), near);
}

// The first step does not overlap and is long, so the loader gets ahead in it. The steps after it
// are equal until this lead is used up.
TEST(Ddp, IsNotSteadyWhileTheLoaderLosesItsLead) {
  Job job = toy_job(4, 50e6);
  job.simulation.steps = 2000;
  const Numbers free = simulate(job, DdpOptions{});
  ASSERT_GT(free.first, 1.1 * free.step);
  job.data_loading_seconds = 1.002 * free.step;
  const Numbers loading = simulate(job, DdpOptions{});
  EXPECT_NEAR(loading.step / job.data_loading_seconds, 1, 1e-6);
  EXPECT_GT(loading.extrapolated, 0);
}

TEST(Ddp, IsBoundByASlowDataLoader) {
  Job job = toy_job();
  job.data_loading_seconds = 0.1;
  const Numbers result = simulate(job, DdpOptions{});
  EXPECT_LT(relative(result.step, 0.1), near);
  EXPECT_GT(result.split.data_loading, 0.05);
  job.data_loading_seconds = 1e-3;
  EXPECT_EQ(simulate(job, DdpOptions{}).split.data_loading, 0);
}

TEST(Ddp, IsHostBoundWhenKernelsAreShort) {
  auto costs = free_copies();
  costs->forward = {2e-3, 1e-3, 2.1e-3};
  costs->backward = {4e-3, 2e-3, 4.1e-3};
  const Numbers result = simulate(toy_job(4, 1e3, 8, costs), DdpOptions{});
  // The host needs 4 x 6 ms of dispatch, and 105 us for the only collective.
  EXPECT_LT(relative(result.step, 24e-3 + 105e-6), 1e-3);
  EXPECT_GT(result.split.host_bound, 10e-3);
}

TEST(Ddp, GradScalerStopsTheHostEachStep) {  // fact 22
  auto costs = free_copies();
  // In forward the host needs longer than the device; in backward it needs no time and gets ahead.
  costs->forward = {1.5e-3, 1e-3, 2.5e-3};
  Job job = toy_job(4, 1e6, 8, costs);
  const double without = simulate(job, DdpOptions{}).step;
  edit_step(job).precision = Precision::amp_fp16;
  EXPECT_GT(simulate(job, DdpOptions{}).step, without + 1e-3);
}

TEST(Ddp, WaitsForTheSlowestRank) {
  Job job = toy_job(4, 1e6, 8, free_copies());
  const double nominal = simulate(job, DdpOptions{}).step;
  job.stragglers.slow_ranks = {{3, 1.5}};
  const Numbers slow = simulate(job, DdpOptions{});
  EXPECT_NEAR(slow.step, nominal * 1.5, 1e-3);
  EXPECT_GT(slow.split.waiting, 3e-3);
  EXPECT_LT(relative(sum(slow.split), slow.step), near);
  job.stragglers.slow_ranks = {{6, 1.5}};
  EXPECT_EQ(simulate(job, DdpOptions{}).step, slow.step);
}

// The step is T = f C + all-reduce, with C the compute and f the slow rank's factor: the slow rank
// never waits, and the others wait (f - 1) C.
TEST(Ddp, OthersWaitForOneSlowRankByWhatItTakesLonger) {
  Job job = toy_job(4, 1e6, 8, free_copies());
  job.simulation.engine = Engine::loop;
  const double nominal = make_strategy(one_bucket())->simulate(job).device_busy;
  job.stragglers.slow_ranks = {{3, 1.5}};
  const StrategyResult result = make_strategy(one_bucket())->simulate(job);
  ASSERT_EQ(result.ranks.size(), 2u);
  const RankTimes &others = result.ranks[0], &slow = result.ranks[1];
  EXPECT_EQ(others.rank, 0);
  EXPECT_EQ(others.ranks, 7);
  EXPECT_EQ(slow.rank, 3);
  EXPECT_EQ(slow.ranks, 1);
  EXPECT_NEAR(slow.waiting, 0, 1e-12);
  EXPECT_LT(relative(others.waiting, 0.5 * nominal), near);
  EXPECT_LT(relative(slow.own, others.own + 0.5 * nominal), near);
  EXPECT_LT(relative(others.communicating, slow.communicating), near);
  EXPECT_LT(relative(7 * others.waiting / 8, result.split.waiting), near);
}

// Fact 145: with factors of 1 + Exp(m) the slowest of n ranks takes 1 + m H_n, and each rank waits
// for m (H_n - 1) on average.
TEST(Ddp, EveryRankWaitsForTheSlowestOfAStep) {
  auto costs = free_copies();
  costs->optimizer_seconds = 0;  // all work lies between two barriers
  Job job = toy_job(4, 1e6, 8, costs);
  job.simulation.engine = Engine::loop;
  job.simulation.steps = 4000;
  const double nominal = make_strategy(one_bucket())->simulate(job).device_busy;
  constexpr double m = 0.3;
  job.stragglers.per_step = ShiftedExponential{m};
  const StrategyResult result = make_strategy(one_bucket())->simulate(job);
  ASSERT_EQ(result.ranks.size(), 8u);
  const double harmonic = 1 + 1 / 2. + 1 / 3. + 1 / 4. + 1 / 5. + 1 / 6. + 1 / 7. + 1 / 8.;
  for (const RankTimes& rank : result.ranks) {
    EXPECT_LT(relative(rank.waiting, nominal * m * (harmonic - 1)), 0.05) << rank.rank;
    EXPECT_LT(relative(rank.own + rank.waiting, nominal * (1 + m * harmonic)), 0.02) << rank.rank;
  }
}

TEST(Ddp, RepeatsItselfToTheLastBit) {
  Job job = toy_job(10, 4e6, 16);
  job.simulation.interference = true;
  job.stragglers.per_step = Lognormal{0.05};
  std::vector<double> first, second;
  simulate(job, DdpOptions{}, &first);
  simulate(job, DdpOptions{}, &second);
  ASSERT_EQ(first.size(), 20u);
  EXPECT_EQ(first, second);
  EXPECT_NE(first[3], first[4]);
  job.simulation.seed = 2;
  simulate(job, DdpOptions{}, &second);
  EXPECT_NE(first, second);
}

TEST(Ddp, SlowsDownComputeBesideCollectives) {  // facts 112, 113
  Job job = toy_job(12, 8e6, 16);
  const Numbers off = simulate(job, DdpOptions{});
  job.simulation.interference = true;
  const Numbers on = simulate(job, DdpOptions{});
  EXPECT_GT(on.split.backward, off.split.backward * 1.01);
  EXPECT_GT(on.step, off.step);
  EXPECT_LT(relative(sum(on.split), on.step), near);
}

// Kernels at the launch floor lose nothing to a collective.
TEST(Ddp, FloorsOfLaunchesAreNotSlowedDown) {
  class Floors final : public ToyCosts {
    LayerCost layer(const TrainingStep& step, std::size_t index) const override {
      LayerCost cost = ToyCosts::layer(step, index);
      cost.arithmetic = cost.streaming = 0;
      return cost;
    }
  };
  Job job = toy_job(12, 8e6, 16, std::make_shared<Floors>());
  const Numbers off = simulate(job, DdpOptions{});
  job.simulation.interference = true;
  EXPECT_LT(relative(simulate(job, DdpOptions{}).split.backward, off.split.backward), near);
}

TEST(Ddp, NeedsNoContentionAlone) {
  Job job = toy_job(6, 4e6, 8);
  const double flow = simulate(job, DdpOptions{}).step;
  job.simulation.network = NetworkKind::analytic;
  EXPECT_LT(relative(simulate(job, DdpOptions{}).step, flow), near);
}

}  // namespace
}  // namespace lockstep::ddp_test
