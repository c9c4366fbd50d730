// Does simulated ZeRO follow its closed forms (facts 63-65; Rajbhandari et al. 2020)?
#include <gtest/gtest.h>

#include <cmath>

#include "costs/collective.hpp"
#include "costs/optimizer.hpp"
#include "memory/step_memory.hpp"
#include "toy_job.hpp"

namespace lockstep::zero_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

constexpr double near = 1e-9;
constexpr double elements = 40e6, parameters = 4 * elements;  // of the toy job's four layers
constexpr double forward = 4 * 1e-3, backward = 4 * 2e-3, update = 1e-3;
constexpr double copies = 2 * parameters / 1e12;  // of the gradients into their buckets
// The host is always ahead of the device here, so issuing collectives costs nothing.

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

ZeroOptions one_bucket(int stage = 1) {
  ZeroOptions options;
  options.stage = stage;
  options.bucket_bytes = 1e9;
  return options;
}

double seconds(const Job& job, const CommGroup& group, Collective kind, double bytes) {
  return collective_cost(job.machine, group, kind, bytes).seconds();
}
double seconds(const Job& job, Collective kind, double bytes) {
  return seconds(job, group_of(job.machine, job.mesh.gpus()), kind, bytes);
}

double busiest_bytes(const Job& job, Collective kind, double bytes) {
  double most = 0;
  for (const LinkLoad& load :
       collective_cost(job.machine, group_of(job.machine, job.mesh.gpus()), kind, bytes).links) {
    most = std::max(most, load.bytes);
  }
  return most;
}

// The only bucket is full at the end of backward, so nothing overlaps.
TEST(Zero, OneBucketIsScatteredAfterBackwardAndGatheredAfterTheUpdate) {
  const Job job = toy_job();
  const double expected = forward + backward + copies + update +
                          seconds(job, Collective::reduce_scatter, parameters) +
                          seconds(job, Collective::all_gather, parameters);
  for (const int stage : {1, 2}) {
    const Numbers result = simulate(job, one_bucket(stage));
    EXPECT_LT(relative(result.step, expected), near) << stage;
    EXPECT_LT(relative(sum(result.split), result.step), near);
    EXPECT_EQ(result.samples, 8 * 32);
  }
}

// A reduce-scatter and an all-gather together send as much as DDP's all-reduce (fact 63).
TEST(Zero, SendsAsMuchAsAnAllReduce) {
  const Job job = toy_job();
  const double both = busiest_bytes(job, Collective::reduce_scatter, parameters) +
                      busiest_bytes(job, Collective::all_gather, parameters);
  EXPECT_LT(relative(simulate(job, one_bucket()).busiest, both), near);
  ZeroOptions ahead = one_bucket();
  ahead.bucket_bytes = 40e6;
  ahead.gather = ParameterGather::with_forward;
  EXPECT_LT(relative(simulate(job, ahead).busiest, both), 1e-6);
  // NCCL's ring sends 2 (N - 1) / N of the bytes in both cases.
  EXPECT_LT(relative(both, 2 * parameters * 7 / 8), near);
}

// Every rank has the norm of its shards; an all-reduce of one fp32 value adds these up.
TEST(Zero, TheNormIsSummedOverTheShards) {
  Job job = toy_job();
  const Numbers plain = simulate(job, one_bucket());
  job.gradient_clipping = 1;
  const Numbers clipped = simulate(job, one_bucket());
  const double streamed = clipping_bytes(job.step->precision, elements / 8) / 1e12;
  const double scalar = seconds(job, Collective::all_reduce, 4);
  EXPECT_LT(relative(clipped.step, plain.step + streamed + scalar), near);
  EXPECT_NEAR(clipped.busiest - plain.busiest, busiest_bytes(job, Collective::all_reduce, 4), 1e-3);
}

TEST(Zero, BucketsOverlapBackwardUnlessToldNotTo) {
  const Job job = toy_job();
  ZeroOptions options = one_bucket();
  options.bucket_bytes = 1;  // a bucket for each layer
  const double reduce = seconds(job, Collective::reduce_scatter, parameters / 4);
  const double gather = seconds(job, Collective::all_gather, parameters / 4);
  const double waiting = simulate(job,
                                  [&] {
                                    options.overlap = false;
                                    return options;
                                  }())
                             .step;
  EXPECT_LT(relative(waiting, forward + backward + copies + update + 4 * (reduce + gather)), near);
  options.overlap = true;
  const double overlapped = simulate(job, options).step;
  // Only the last layer's bucket has no backward left behind which to hide.
  EXPECT_LT(relative(overlapped, waiting - 3 * reduce), near);
}

TEST(Zero, ParametersMayBeGatheredWhileForwardRuns) {
  const Job job = toy_job();
  ZeroOptions options = one_bucket();
  options.bucket_bytes = 1;
  const double after = simulate(job, options).step;
  options.gather = ParameterGather::with_forward;
  const double with = simulate(job, options).step;
  const double gather = seconds(job, Collective::all_gather, parameters / 4);
  // A layer begins only when its own parameters are there.
  double ready = 0;
  for (int layer = 0; layer < 4; ++layer) {
    ready = std::max(ready, (layer + 1) * gather) + forward / 4;
  }
  EXPECT_LT(relative(with, after - 4 * gather - forward + ready), near);
}

TEST(Zero, AsPyTorchHasItReducesAllOfItAndBroadcastsTensors) {
  const Job job = toy_job();
  ZeroOptions options = one_bucket();
  options.reduction = GradientReduction::all_reduce;
  const double reduced =
      forward + backward + copies + update + seconds(job, Collective::all_reduce, parameters);
  const double whole = reduced + 4 * seconds(job, Collective::broadcast, parameters / 4);
  EXPECT_LT(relative(simulate(job, options).step, whole), near);
  options.partition = StatePartition::elements;
  const double parts = reduced + seconds(job, Collective::all_gather, parameters);
  EXPECT_LT(relative(simulate(job, options).step, parts), near);
}

// ZeroRedundancyOptimizer with tensors of 7, 5, 4, 3 and 1 Mi elements gives each tensor to the
// rank with the least, of equal ranks to the first. Two ranks get 7 + 3 and 5 + 4 + 1; three get 7,
// 5 + 1 and 4 + 3; four get 7, 5, 4 and 3 + 1.
TEST(Zero, WholeTensorsGoToTheRankWithTheLeast) {
  const auto state = [](std::vector<int> sizes, int ranks) {
    Job job = toy_job(static_cast<int>(sizes.size()), 1, ranks);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      edit_step(job).layers[i].parameters[0].count = sizes[i] * 1024.0 * 1024;
    }
    job.optimizer.name = OptimizerKind::adam;
    job.optimizer.implementation = OptimizerImplementation::fused;
    ZeroOptions options = one_bucket();
    options.reduction = GradientReduction::all_reduce;
    const auto peak = make_strategy(options)->memory(job).at_peak;
    return peak.at("optimizer state") / (8.0 * 1024 * 1024);
  };
  EXPECT_EQ(state({4, 7, 1, 3, 5}, 2), 10);
  EXPECT_EQ(state({4, 7, 1, 3, 5}, 3), 7);
  EXPECT_EQ(state({4, 7, 1, 3, 5}, 4), 7);
  EXPECT_EQ(state({2, 2, 2}, 2), 4);
  EXPECT_EQ(state({100, 1, 1, 1}, 8), 100);  // a single tensor cannot be shared
}

TEST(Zero, StateInsideANodeIsReducedAcrossNodesToo) {
  Job job = toy_job(4, 10e6, 16);
  ZeroOptions options = one_bucket();
  options.shard_group = 8;
  CommGroup node = group_of(job.machine, 8), across = group_of(job.machine, 16);
  across.ranks_per_node = 1;
  across.concurrent = 8;
  const double expected = forward + backward + copies + update +
                          seconds(job, node, Collective::reduce_scatter, parameters) +
                          seconds(job, across, Collective::all_reduce, parameters / 8) +
                          seconds(job, node, Collective::all_gather, parameters);
  EXPECT_LT(relative(simulate(job, options).step, expected), near);
}

// Reductions inside nodes meet reductions across nodes on shared links. Stage 2 has one for every
// micro-batch.
TEST(Zero, IsCarriedBySimGridWhereItsFewTransfersMeet) {
  const auto engine = [](int stage, int shard_group, int accumulation, bool drawn) {
    Job job = toy_job(4, 10e6, 16);
    job.simulation.network = NetworkKind::flow;
    job.simulation.steps = 100;
    job.accumulation = accumulation;
    if (drawn) job.stragglers.per_step = Lognormal{0.05};
    ZeroOptions options = one_bucket(stage);
    options.shard_group = shard_group;
    return in_child([&] {
      return std::vector<double>{
          static_cast<double>(make_strategy(options)->simulate(job).engine == Engine::simgrid)};
    })[0];
  };
  EXPECT_EQ(engine(1, 8, 1, false), 1);
  EXPECT_EQ(engine(1, 0, 1, false), 0);  // one group: nothing meets
  EXPECT_EQ(engine(1, 8, 1, true), 1);   // 101 steps of three transfers
  EXPECT_EQ(engine(1, 8, 100, true), 1);
  EXPECT_EQ(engine(2, 8, 1, true), 1);
  EXPECT_EQ(engine(2, 8, 100, true), 0);
}

TEST(Zero, StageTwoReducesEveryMicroBatch) {
  Job job = toy_job();
  job.accumulation = 3;
  const double one = simulate(job, one_bucket(1)).step, two = simulate(job, one_bucket(2)).step;
  const double reduce = seconds(job, Collective::reduce_scatter, parameters);
  const double added = 2 * 3 * parameters / 1e12;  // stage 1 adds whole gradients twice
  EXPECT_LT(relative(two - one, 2 * (reduce + copies) + added / 8 - added), 1e-6);
}

TEST(Zero, OnOneGpuIsNothing) {
  const Numbers result = simulate(toy_job(4, 10e6, 1), one_bucket());
  EXPECT_LT(relative(result.step, forward + backward + update), near);
  EXPECT_EQ(result.traffic, 0);
}

// Adam keeps 8 bytes for each element that a rank updates. Stage 1 keeps all gradients, stage 2 a
// rank's share and a bucket.
TEST(Zero, KeepsAShareOfTheStateAndOfTheGradients) {
  Job job = toy_job(8, 16 * 1024 * 1024, 8);
  job.optimizer.name = OptimizerKind::adam;
  job.optimizer.implementation = OptimizerImplementation::fused;
  const double model = 4 * 8.0 * 16 * 1024 * 1024, layer = model / 8;
  const auto at_peak = [&](int stage, double bucket) {
    ZeroOptions options;
    options.stage = stage;
    options.bucket_bytes = bucket;
    return make_strategy(options)->memory(job).at_peak;
  };
  const auto first = at_peak(1, layer), second = at_peak(2, layer);
  for (const auto& peak : {first, second}) {
    EXPECT_EQ(peak.at("parameters"), model);
    EXPECT_EQ(peak.at("optimizer state"), 2 * model / 8);
  }
  EXPECT_EQ(first.at("buckets"), model);
  EXPECT_EQ(first.at("gradients"), layer);  // before it is copied into its bucket
  EXPECT_EQ(second.at("buckets"), 2 * layer);
  EXPECT_EQ(second.at("gradients"), layer);
  job.accumulation = 2;
  // At the peak there are the shard of the first micro-batch and a gradient of the second.
  EXPECT_EQ(at_peak(2, layer).at("gradients"), model / 8 + layer);
  EXPECT_EQ(at_peak(1, layer).at("gradients"), layer);
}

TEST(Zero, RefusesGroupsThatDoNotFit) {
  ZeroOptions options;
  options.shard_group = 3;
  EXPECT_THROW(make_strategy(options)->memory(toy_job()), ConfigError);
}

}  // namespace
}  // namespace lockstep::zero_test
