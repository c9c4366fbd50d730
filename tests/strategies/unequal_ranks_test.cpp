// Which laws hold for every synchronous strategy with groups of ranks, unequal ranks and
// interference?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "toy_job.hpp"

namespace lockstep::unequal_ranks_test {
namespace {

using testing::Numbers;
using testing::simulate;
using testing::toy_job;
using testing::ToyCosts;

struct Case {
  Job job;
  StrategyOptions options;
};

FsdpOptions fsdp(int version, Sharding sharding, int group = 0) {
  FsdpOptions options;
  options.version = version;
  options.sharding = sharding;
  options.shard_group = group;
  return options;
}

ZeroOptions zero(int stage, int group, GradientReduction reduction) {
  ZeroOptions options;
  options.stage = stage;
  options.shard_group = group;
  options.reduction = reduction;
  return options;
}

std::vector<StrategyOptions> strategies() {
  std::vector<StrategyOptions> all{DdpOptions{}, LocalSgdOptions{}};
  for (const int version : {1, 2}) {
    all.push_back(fsdp(version, Sharding::full_shard));
    for (const int group : {4, 8}) {
      all.push_back(fsdp(version, Sharding::hybrid_shard, group));
      all.push_back(fsdp(version, Sharding::hybrid_shard_zero2, group));
    }
  }
  for (const int group : {0, 4, 8}) {
    all.push_back(zero(1, group, GradientReduction::reduce_scatter));
    all.push_back(zero(2, group, GradientReduction::reduce_scatter));
    all.push_back(zero(1, group, GradientReduction::all_reduce));
  }
  return all;
}

Case random_case() {
  auto costs = std::make_shared<ToyCosts>();
  const double forward = *rc::gen::inRange(1, 20) * 0.2e-3;
  costs->forward = {0, forward, forward};
  costs->backward = {0, 2 * forward, 2 * forward};
  Case result{toy_job(*rc::gen::inRange(1, 5), *rc::gen::inRange(2, 40) * 1e6, 16, costs),
              *rc::gen::elementOf(strategies())};
  result.job.simulation.steps = 8;
  result.job.accumulation = *rc::gen::inRange(1, 4);
  result.job.simulation.interference = *rc::gen::arbitrary<bool>();
  result.job.simulation.engine = *rc::gen::element(Engine::loop, Engine::simgrid);
  result.job.simulation.network = *rc::gen::element(NetworkKind::analytic, NetworkKind::flow);
  return result;
}

Numbers with_slow_rank(Job job, const StrategyOptions& options, int rank, double factor) {
  job.stragglers.slow_ranks = {{rank, factor}};
  return simulate(job, options);
}

RC_GTEST_PROP(UnequalRanks, RelabellingRanksChangesNothing, ()) {
  const Case c = random_case();
  const double factor = 1 + *rc::gen::inRange(1, 100) * 0.01;
  const int one = *rc::gen::inRange(0, 16), other = *rc::gen::inRange(0, 16);
  const Numbers a = with_slow_rank(c.job, c.options, one, factor);
  const Numbers b = with_slow_rank(c.job, c.options, other, factor);
  RC_ASSERT(testing::difference(a, b) <= 1e-9);
}

RC_GTEST_PROP(UnequalRanks, ATinyDifferenceMovesAStepByLittle, ()) {
  const Case c = random_case();
  const double equal = simulate(c.job, c.options).step;
  const double tiny = with_slow_rank(c.job, c.options, *rc::gen::inRange(0, 16), 1 + 1e-5).step;
  RC_ASSERT(std::abs(tiny - equal) <= 1e-4 * equal);
}

RC_GTEST_PROP(UnequalRanks, ASlowerRankNeverShortensAStep, ()) {
  const Case c = random_case();
  const int rank = *rc::gen::inRange(0, 16);
  const double factor = 1 + *rc::gen::inRange(0, 100) * 0.01;
  const double slow = with_slow_rank(c.job, c.options, rank, factor).step;
  const double slower = with_slow_rank(c.job, c.options, rank, factor + 0.02).step;
  RC_ASSERT(slower >= slow * (1 - 1e-9));
}

// The host takes time only to issue collectives, so waiting for a slow rank must not count as
// host-bound.
RC_GTEST_PROP(UnequalRanks, WaitingForASlowRankIsNotHostBound, ()) {
  const Case c = random_case();
  const Numbers equal = simulate(c.job, c.options);
  const Numbers slow = with_slow_rank(c.job, c.options, *rc::gen::inRange(0, 16), 2);
  RC_ASSERT(slow.split.host_bound <= equal.split.host_bound + 1e-3 * slow.step);
  RC_ASSERT(std::abs(testing::sum(slow.split) - slow.step) <= 1e-9 * slow.step);
}

RC_GTEST_PROP(UnequalRanks, OneLaneIsAsManyEqualOnes, ()) {
  const Case c = random_case();
  Job many = c.job;
  many.stragglers.per_step = Lognormal{0};
  const double one_lane = simulate(c.job, c.options).step;
  RC_ASSERT(std::abs(simulate(many, c.options).step - one_lane) <= 1e-6 * one_lane);
}

// Forward and backward take 12 ms on fifteen of sixteen ranks and 24 ms on the slow one, so fifteen
// ranks wait.
TEST(UnequalRanks, AnAllReduceOfAllWaitsForTheSlowRankOfAnyGroup) {
  const Job job = toy_job(4, 10e6, 16);
  for (const int rank : {0, 15}) {
    const Numbers grouped = with_slow_rank(job, zero(1, 8, GradientReduction::all_reduce), rank, 2);
    EXPECT_GT(grouped.split.waiting, 11e-3) << rank;
  }
}

}  // namespace
}  // namespace lockstep::unequal_ranks_test
