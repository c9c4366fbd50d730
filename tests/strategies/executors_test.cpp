// Do both executors find the same times, splits and traffic of synchronous steps?
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/statistics.hpp"
#include "costs/collective_links.hpp"
#include "toy_job.hpp"

namespace lockstep::executors_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

Job random_job() {
  const auto milliseconds = [](int low, int high) { return *rc::gen::inRange(low, high) * 1e-5; };
  auto costs = std::make_shared<ToyCosts>();
  const double forward = milliseconds(1, 300), backward = milliseconds(1, 600);
  const double issue = milliseconds(0, 200);
  costs->forward = {issue, forward, std::max(issue, forward) + 1e-5};
  costs->backward = {issue, backward, std::max(issue, backward) + 1e-5};
  Job job = toy_job(*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 2000) * 1e4,
                    *rc::gen::element(2, 4, 5, 8, 16, 64), costs);
  job.accumulation = *rc::gen::inRange(1, 3);
  job.simulation.steps = 6;
  job.simulation.seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
  job.simulation.interference = *rc::gen::arbitrary<bool>();
  job.simulation.network = *rc::gen::element(NetworkKind::flow, NetworkKind::analytic);
  job.gradient_clipping = *rc::gen::element(0.0, 1.0);
  job.stragglers.per_step = Lognormal{*rc::gen::element(0.01, 0.05, 0.3)};
  if (*rc::gen::arbitrary<bool>()) job.data_loading_seconds = milliseconds(1, 1000);
  job.machine.fabric.nodes_per_leaf = *rc::gen::inRange(0, 3);
  if (*rc::gen::arbitrary<bool>()) {
    const LinkClass link = *rc::gen::element(LinkClass::nic, LinkClass::uplink, LinkClass::nvlink);
    job.stragglers.neighbours = {{link, {}, 0.61, 3e-3, 7e-3}, {link, {1}, 0.3, {}, {}}};
  }
  return job;
}

void expect_same(Job job, const StrategyOptions& options) {
  job.simulation.engine = Engine::loop;
  const Numbers loop = simulate(job, options);
  job.simulation.engine = Engine::simgrid;
  RC_ASSERT(difference(loop, simulate(job, options)) <= 1e-9);
}

RC_GTEST_PROP(BothExecutors, AgreeOnDdp, ()) {
  DdpOptions options;
  options.bucket_bytes = *rc::gen::element(1e6, 25e6, 1e9);
  options.gradient_as_bucket_view = *rc::gen::arbitrary<bool>();
  options.comm_hook =
      *rc::gen::element<CommHook>(PlainHook{}, PowerSgdHook{}, TopKHook{}, OneBitHook{});
  expect_same(random_job(), options);
}

RC_GTEST_PROP(BothExecutors, AgreeOnFsdp, ()) {
  FsdpOptions options;
  options.version = *rc::gen::element(1, 2);
  options.sharding = *rc::gen::element(Sharding::full_shard, Sharding::shard_grad_op,
                                       Sharding::no_shard, Sharding::hybrid_shard);
  options.limit_all_gathers = *rc::gen::arbitrary<bool>();
  options.cpu_offload = *rc::gen::arbitrary<bool>();
  expect_same(random_job(), options);
}

RC_GTEST_PROP(BothExecutors, AgreeOnLocalSgd, ()) {
  LocalSgdOptions options;
  options.every = *rc::gen::inRange(1, 5);
  expect_same(random_job(), options);
}

RC_GTEST_PROP(BothExecutors, AgreeOnGossip, ()) {
  GossipOptions options;
  options.graph = *rc::gen::element(GossipGraph{RingGraph{}}, GossipGraph{ExponentialGraph{}},
                                    GossipGraph{PairsGraph{PairPartners::any}},
                                    GossipGraph{PairsGraph{PairPartners::ring}});
  options.every = *rc::gen::inRange(1, 4);
  options.overlap = *rc::gen::arbitrary<bool>();
  expect_same(random_job(), options);
}

RC_GTEST_PROP(BothExecutors, AgreeOnZero, ()) {
  ZeroOptions options;
  options.stage = *rc::gen::inRange(1, 3);
  options.bucket_bytes = *rc::gen::element(1e6, 25e6, 1e9);
  options.gather = *rc::gen::element(ParameterGather::after_update, ParameterGather::with_forward);
  options.overlap = *rc::gen::arbitrary<bool>();
  expect_same(random_job(), options);
}

// Two nodes whose network cards set the pace. A neighbor that takes half of a card doubles the time
// of every byte, one that takes three quarters makes it 4 times as long: the difference is 1 / 0.25
// - 1 / 0.5 = 2 times the time on a free card. If the neighbor takes three quarters for two thirds
// of the time, in bursts much shorter than a step, bytes move at a quarter of the card's rate in
// the bursts and at the strategy's own rate between them.
TEST(Strategies, WaitForTheBytesThatNeighboursDelay) {
  const std::vector<StrategyOptions> strategies{
      DdpOptions{}, FsdpOptions{}, LocalSgdOptions{1, false, MeanOuter{}, 1, 0}, ZeroOptions{}};
  for (const StrategyOptions& options : strategies) {
    auto costs = std::make_shared<ToyCosts>();
    costs->forward = costs->backward = {0, 1e-6, 1e-6};
    Job job = toy_job(4, 40e6, 16, costs);
    job.simulation.engine = Engine::loop;
    const auto beside = [&](Neighbour neighbour) {
      job.stragglers.neighbours = {neighbour};
      return make_strategy(options)->simulate(job);
    };
    const StrategyResult half = beside({LinkClass::nic, {}, 0.5, {}, {}});
    const StrategyResult most = beside({LinkClass::nic, {1}, 0.75, {}, {}});
    const auto nic = std::find_if(most.traffic.begin(), most.traffic.end(),
                                  [](const LinkTraffic& t) { return t.link_class == "NIC"; });
    ASSERT_NE(nic, most.traffic.end());
    const double free = nic->bytes / nic_payload_rate(job.machine);
    EXPECT_NEAR((mean(most.step_seconds) - mean(half.step_seconds)) / free, 2, 1e-3)
        << options.index();
    job.simulation.steps = 200;
    // the rest of a step: latencies and compute
    const double rest = mean(half.step_seconds) - 2 * free;
    job.stragglers.neighbours.clear();
    const double alone = mean(make_strategy(options)->simulate(job).step_seconds) - rest;
    const double rate = 1.0 / 3 * free / alone + 2.0 / 3 * 0.25;  // relative to the card's rate
    const StrategyResult bursts = beside({LinkClass::nic, {}, 0.75, 0.1e-3, 0.15e-3});
    EXPECT_FALSE(bursts.extrapolated);
    EXPECT_NEAR(mean(bursts.step_seconds) / (rest + free / rate), 1, 0.01) << options.index();
  }
}

}  // namespace
}  // namespace lockstep::executors_test
