// Do exchanges inside layers, and the ranks of a mesh, follow closed forms and laws that hold on
// every axis?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline_job.hpp"
#include "strategies/common/mesh_groups.hpp"
#include "strategies/common/network.hpp"

namespace lockstep::testing {
namespace {

constexpr double exchanged = 64e6;  // bytes

AxisExchange exchange(ExchangeKind kind, Beside beside = Beside::nothing) {
  AxisExchange result;
  result.axis = Axis::tensor;
  result.kind = kind;
  result.bytes = exchanged;
  result.beside = beside;
  return result;
}

// A job whose layers take a millisecond and have an exchange before each pass.
Job exchanging_job(const Mesh& mesh, int layers = 4) {
  Job job = toy_job(layers, 1000);
  job.mesh = mesh;
  for (Layer& layer : edit_step(job).layers) {
    layer.forward_exchanges = {exchange(ExchangeKind::all_gather)};
    layer.backward_exchanges = {exchange(ExchangeKind::reduce_scatter)};
  }
  return job;
}

double seconds_of(const Job& job, ExchangeKind kind) {
  return collective_cost(job.machine, axis_group(job, Axis::tensor), collective_of(kind), exchanged)
      .seconds();
}

TEST(Exchanges, AreWaitedForBeforeTheirLayer) {
  const Job job = exchanging_job({.data = 1, .tensor = 8});
  const double exchanges = 4 * (seconds_of(job, ExchangeKind::all_gather) +
                                seconds_of(job, ExchangeKind::reduce_scatter));
  const Numbers result = simulate(job, DdpOptions{});
  EXPECT_NEAR(result.split.exposed_communication, exchanges, 1e-9 * result.step);
  EXPECT_NEAR(result.step, 4 * 3e-3 + 1e-3 + exchanges, 1e-3 * result.step);
}

// As in Megatron-LM, the sum of the input's gradient runs beside the weight gradient.
TEST(Exchanges, RunBesideTheGradientsOfWeights) {
  Job job = pipeline_job(PipelineSchedule::gpipe, {1, 1, 1, 0});
  const auto costs = std::make_shared<StageCosts>();
  costs->forward = {0, 1e-3, 1e-3};
  costs->backward = {0, 4e-3, 4e-3};
  job = toy_job(2, 1000, 1, costs);
  job.mesh = {.data = 1, .tensor = 8};
  const double alone = simulate(job, DdpOptions{}).step;
  // The first layer has the exchange; the second layer is the product that reads its result.
  edit_step(job).layers.front().backward_exchanges = {
      exchange(ExchangeKind::all_reduce, Beside::weight_gradient)};
  ASSERT_LT(seconds_of(job, ExchangeKind::all_reduce), 2e-3);
  EXPECT_NEAR(simulate(job, DdpOptions{}).step, alone, 1e-4 * alone);
  edit_step(job).layers.front().backward_exchanges = {exchange(ExchangeKind::all_reduce)};
  EXPECT_GT(simulate(job, DdpOptions{}).step,
            alone + 0.9 * seconds_of(job, ExchangeKind::all_reduce));
}

// An exchange runs beside layers that do not read its result: in forward until the reading layer,
// in backward from that layer's backward on.
TEST(Exchanges, RunUntilALayerReadsWhatArrives) {
  Job job = toy_job(4, 1000);
  job.mesh = {.data = 1, .tensor = 8};
  edit_step(job).layers[2].inputs = {0};
  edit_step(job).layers[3].inputs = {1, 2};
  const double alone = simulate(job, DdpOptions{}).step;
  const auto with = [&](Beside beside) {
    Layer& layer = edit_step(job).layers[1];
    layer.forward_exchanges =
        layer.backward_exchanges = {exchange(ExchangeKind::all_gather, beside)};
    return simulate(job, DdpOptions{});
  };
  const double seconds = seconds_of(job, ExchangeKind::all_gather);
  ASSERT_LT(seconds, 2e-3);  // two layers' forward, one layer's backward
  EXPECT_NEAR(with(Beside::nothing).step, alone + 2 * seconds, 1e-3 * alone);
  EXPECT_NEAR(with(Beside::reader).step, alone, 1e-3 * alone);
  EXPECT_LT(with(Beside::reader).split.exposed_communication, 1e-3 * seconds);
  // If the next layer reads the result at once, the exchange is exposed, except for the layer's own
  // work.
  edit_step(job).layers[2].inputs = {1};
  EXPECT_NEAR(with(Beside::reader).split.exposed_communication,
              std::max(0.0, seconds - 1e-3) + seconds, 1e-3 * alone);
}

// The slowest rank of the tensor group sets the pace of every exchange, and this rank differs from
// step to step.
TEST(Exchanges, GoAtThePaceOfEachStep) {
  Job job = exchanging_job({.data = 1, .tensor = 8});
  job.communication_scale = 0;
  job.stragglers.per_rank_sigma = 0;
  job.stragglers.per_step = Lognormal{0.3};
  const auto steps_with = [&](int micro_batches) {
    job.accumulation = micro_batches;
    std::vector<double> steps;
    simulate(job, DdpOptions{}, &steps);
    return steps;
  };
  // The first and the last micro-batch of a step are simulated exchange by exchange; the others
  // must take the same time.
  const std::vector<double> one = steps_with(1), two = steps_with(2), many = steps_with(12);
  ASSERT_EQ(two.size(), many.size());
  for (std::size_t i = 0; i < many.size(); ++i) {
    EXPECT_NEAR(many[i] - two[i], 10 * (two[i] - one[i]), 1e-3 * many[i]) << i;
  }
}

// As in Megatron-LM, tensor ranks are neighbors, and pipeline ranks are farthest apart.
TEST(MeshGroups, LieWhereTheFactsSay) {
  Job job = toy_job();
  job.mesh = {.pipeline = 2, .data = 4, .context = 1, .tensor = 8};  // nodes of 8
  EXPECT_EQ(axis_group(job, Axis::tensor).nodes, 1);
  EXPECT_EQ(axis_group(job, Axis::tensor).ranks_per_node, 8);
  EXPECT_EQ(gradient_group(job).nodes, 4);
  EXPECT_EQ(gradient_group(job).ranks_per_node, 1);
  EXPECT_EQ(gradient_group(job).concurrent, 8);
  job.mesh = {.pipeline = 1, .data = 4, .context = 1, .tensor = 2};
  EXPECT_EQ(gradient_group(job).ranks_per_node, 4);
  EXPECT_EQ(gradient_group(job).concurrent, 2);
  EXPECT_EQ(gradient_group(job).stride, 2);
  EXPECT_THAT(gradient_ranks(job.mesh), ::testing::ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(axis_ranks(job.mesh, Axis::tensor), ::testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

std::vector<StrategyOptions> strategies() {
  ZeroOptions zero;
  zero.stage = 1;
  return {DdpOptions{}, FsdpOptions{}, zero, LocalSgdOptions{}};
}

// If all other ranks are equal, the result does not depend on which rank is slow, on any axis.
TEST(MeshLaws, RelabellingRanksChangesNothing) {
  for (const StrategyOptions& options : strategies()) {
    Job job = pipeline_job(PipelineSchedule::one_f_one_b, {2, 1, 4, 0}, 4, 2);
    job.communication_scale = 1e6;
    job.simulation.engine = Engine::loop;
    job.stragglers.per_rank_sigma = 0;
    std::vector<double> steps;
    for (const int rank : {0, 1, 5, 7}) {  // of the first stage
      job.stragglers.slow_ranks = {{rank, 1.5}};
      steps.push_back(simulate(job, options).step);
    }
    for (const double step : steps) EXPECT_NEAR(step, steps.front(), 1e-9 * step);
  }
}

TEST(MeshLaws, AHairsDifferenceMovesNothing) {
  for (const StrategyOptions& options : strategies()) {
    Job job = pipeline_job(PipelineSchedule::one_f_one_b, {2, 1, 4, 0}, 2, 2);
    job.communication_scale = 1e6;
    job.simulation.engine = Engine::loop;
    job.stragglers.per_rank_sigma = 0;
    const double even = simulate(job, options).step;
    job.stragglers.slow_ranks = {{3, 1.00001}};
    EXPECT_NEAR(simulate(job, options).step, even, 1e-4 * even);
  }
}

// Ranks that are simulated one by one give the same result as a lane that represents them all.
TEST(MeshLaws, OneLaneIsAsManyAsThereAreRanks) {
  for (const StrategyOptions& options : strategies()) {
    Job job = pipeline_job(PipelineSchedule::zb1p, {4, 1, 8, 0}, 2, 2);
    job.communication_scale = 1e6;
    job.simulation.engine = Engine::loop;
    job.stragglers.per_rank_sigma = 0;
    const Numbers together = simulate(job, options);
    job.stragglers.per_step = Lognormal{1e-15};
    const Numbers apart = simulate(job, options);
    EXPECT_NEAR(apart.step, together.step, 1e-9 * together.step);
  }
}

}  // namespace
}  // namespace lockstep::testing
