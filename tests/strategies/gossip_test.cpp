// Does simulated gossip follow its closed forms (Lian et al. 2017 and 2018, Assran et al. 2019)?
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "costs/collective.hpp"
#include "results/schedule.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/gossip/graph.hpp"
#include "toy_job.hpp"

namespace lockstep::gossip_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

constexpr double near = 1e-9;
constexpr double mib = 1024.0 * 1024.0;
constexpr double model = 4 * 40e6;  // bytes of the toy job's four layers
constexpr double gradient = 4 * (1e-3 + 2e-3), update = 1e-3;
constexpr double flatten = 2 * model / 1e12;  // the copy into one flat tensor
constexpr double mean_of_two = 3 * model / 1e12, mean_of_three = 4 * model / 1e12;

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

GossipOptions on(GossipGraph graph, bool overlap = true, int every = 1) {
  GossipOptions options;
  options.graph = std::move(graph);
  options.overlap = overlap;
  options.every = every;
  return options;
}

double send_seconds(const Job& job, const CommGroup& group, double bytes) {
  return collective_cost(job.machine, group, Collective::send_recv, bytes).seconds();
}

TEST(Gossip, AnExchangeHidesBehindTheGradients) {
  const Job job = toy_job();
  EXPECT_LT(
      relative(simulate(job, on(RingGraph{})).step, gradient + update + flatten + mean_of_three),
      near);
  EXPECT_LT(relative(simulate(job, on(ExponentialGraph{})).step,
                     gradient + update + flatten + mean_of_two),
            near);
  const Numbers some = simulate(job, on(RingGraph{}, true, 4));
  EXPECT_LT(relative(some.step, gradient + update + (flatten + mean_of_three) / 4), near);
}

TEST(Gossip, AfterTheUpdateAnExchangeIsWaitedFor) {
  const Job job = toy_job();
  const double local = gradient + update + flatten;
  const CommGroup node{.ranks_per_node = 8};
  EXPECT_LT(relative(simulate(job, on(RingGraph{}, false)).step,
                     local + mean_of_three + send_seconds(job, node, 2 * model)),
            near);
  EXPECT_LT(relative(simulate(job, on(ExponentialGraph{}, false)).step,
                     local + mean_of_two + send_seconds(job, node, model)),
            near);
}

// On two nodes of eight ranks, the ring crosses between nodes at its two ends only; in the
// exponential graph as many ranks send across as the distance.
TEST(Gossip, SendsBetweenNodesWhatCrossesThem) {
  Job job = toy_job(4, 10e6, 16);
  const double local = gradient + update + flatten;
  const CommGroup ends{.nodes = 2, .concurrent = 2};
  EXPECT_LT(relative(simulate(job, on(RingGraph{}, false)).step,
                     local + mean_of_three +
                         std::max(send_seconds(job, ends, model),
                                  send_seconds(job, {.ranks_per_node = 8}, 2 * model))),
            near);
  double exchanges = 0;
  for (const int distance : {1, 2, 4, 8}) {
    const CommGroup across{.nodes = 2, .concurrent = distance};
    exchanges += std::max(send_seconds(job, across, model),
                          distance < 8 ? send_seconds(job, {.ranks_per_node = 8}, model) : 0.0);
  }
  EXPECT_LT(relative(simulate(job, on(ExponentialGraph{}, false)).step,
                     local + mean_of_two + exchanges / 4),
            near);
}

// A step's traffic over all links of a class, in units of the model's bytes.
double models(const Job& job, const GossipOptions& options, LinkClass kind) {
  return in_child([&] {
    double bytes = 0;
    for (const LinkTraffic& link : make_strategy(options)->simulate(job).traffic) {
      if (link.link_class == EnumNames<LinkClass>::names[static_cast<std::size_t>(kind)]) {
        bytes += link.total_bytes;
      }
    }
    return std::vector<double>{bytes / model};
  })[0];
}

TEST(Gossip, ARankSendsTwoModelsOnTheRingAndOneElsewhere) {
  const Job node = toy_job(), nodes = toy_job(4, 10e6, 16);
  EXPECT_NEAR(models(node, on(RingGraph{}), LinkClass::nvlink), 2 * 8, 1e-9);
  EXPECT_NEAR(models(node, on(ExponentialGraph{}), LinkClass::nvlink), 8, 1e-9);
  EXPECT_NEAR(models(node, on(RingGraph{}, true, 5), LinkClass::nvlink), 2.0 * 8 / 5, 1e-9);
  EXPECT_NEAR(models(nodes, on(RingGraph{}), LinkClass::nic), 2 * 2, 1e-9);
  EXPECT_NEAR(models(nodes, on(RingGraph{}), LinkClass::nvlink), 2 * 14, 1e-9);
  EXPECT_NEAR(models(nodes, on(ExponentialGraph{}), LinkClass::nic), 2 * (1 + 2 + 4 + 8) / 4.0,
              1e-9);
  Job single = nodes;
  single.machine.gpus_per_node = 1;
  EXPECT_NEAR(models(single, on(ExponentialGraph{}), LinkClass::nic), 16, 1e-9);
  EXPECT_NEAR(models(single, on(RingGraph{}), LinkClass::nic), 2 * 16, 1e-9);
}

// If averages take the device no time, all ranks keep step, and pairs send one model each per step.
TEST(Gossip, APairSendsOneModelEach) {
  const auto costs = std::make_shared<ToyCosts>();
  costs->stream_bytes_per_second = 1e30;
  Job job = toy_job(4, 10e6, 8, costs);
  EXPECT_NEAR(models(job, on(PairsGraph{}), LinkClass::nvlink), 8, 1e-9);
  EXPECT_NEAR(models(job, on(PairsGraph{}, true, 5), LinkClass::nvlink), 8.0 / 5, 1e-9);
  job.machine.gpus_per_node = 1;
  EXPECT_NEAR(models(job, on(PairsGraph{PairPartners::ring}), LinkClass::nic), 8, 1e-9);
}

// Leaf switches have four nodes: of the four ranks that send over a distance of two, two leave
// their leaf.
TEST(Gossip, CrossesUplinksByTheDistance) {
  Job job = toy_job(4, 10e6, 16);
  job.machine.gpus_per_node = 1;
  job.machine.fabric.nodes_per_leaf = 4;
  job.machine.fabric.oversubscription = 1;
  EXPECT_NEAR(models(job, on(ExponentialGraph{}), LinkClass::uplink), 4 * (1 + 2 + 4 + 4) / 4.0,
              1e-9);
}

// D-PSGD's claim: as fast as all-reduce on a fast network, and faster than one server on a slow
// network. A ring's all-reduce sends no more than D-PSGD's two models; the exponential graph sends
// one.
TEST(Gossip, OnASlowNetworkItBeatsAServer) {
  Job job = toy_job(4, 10e6, 16);
  job.machine.gpus_per_node = 1;
  const auto step = [&](const StrategyOptions& options) { return simulate(job, options).step; };
  EXPECT_LT(step(on(RingGraph{})), step(DdpOptions{}));
  job.machine.fabric.nic_bytes_per_second = 1.25e9;
  EXPECT_LT(step(on(RingGraph{})), step(DdpOptions{}));
  EXPECT_LT(step(on(ExponentialGraph{})), 0.6 * step(DdpOptions{}));
  EXPECT_LT(step(on(RingGraph{})), 0.2 * step(ParameterServerOptions{}));
}

// A rank's exchange begins when its two neighbors are ready, and waits for no other rank.
TEST(Gossip, ARankWaitsForItsNeighboursOnly) {
  Job job = toy_job();
  job.stragglers.per_step = Lognormal{0.3};
  const RankSpeeds speeds(job);
  const double exchange = send_seconds(job, {.ranks_per_node = 8}, 2 * model);
  std::vector<double> sent(8, 0.0), first;
  for (int step = 0; step <= job.simulation.steps; ++step) {
    const std::vector<double> factors = speeds.factors(step);
    std::vector<double> next(8);
    for (std::size_t rank = 0; rank < 8; ++rank) {
      next[rank] = sent[rank] + factors[rank] * gradient;
      if (step > 0) {
        const double there =
            std::max({sent[(rank + 7) % 8], sent[rank], sent[(rank + 1) % 8]}) + exchange;
        next[rank] = std::max(next[rank], there) + factors[rank] * mean_of_three;
      }
      next[rank] += factors[rank] * (update + flatten);
    }
    sent = next;
    if (step == 0) first = sent;
  }
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / 8;
  };
  const Numbers result = simulate(job, on(RingGraph{}));
  EXPECT_LT(relative(result.step, (mean(sent) - mean(first)) / job.simulation.steps), near);
  EXPECT_LT(relative(sum(result.split), result.step), near);
  EXPECT_LT(result.step, simulate(job, on(ExponentialGraph{})).step);
}

// AD-PSGD's claim: beside a slow rank the other ranks keep their pace.
TEST(Gossip, OnlyPairsKeepTheirPaceBesideASlowRank) {
  Job job = toy_job();
  job.simulation.steps = 200;
  const double even = simulate(job, on(PairsGraph{})).step;
  EXPECT_LT(relative(even, gradient + update + flatten + mean_of_two), 0.01);
  job.stragglers.slow_ranks = {{3, 4}};
  EXPECT_LT(relative(simulate(job, on(PairsGraph{})).step, even * 8 / 7.25), 0.03);
  const double ring = simulate(job, on(RingGraph{})).step;
  EXPECT_LT(relative(ring, 4 * (gradient + update + flatten + mean_of_three)), 1e-6);
  EXPECT_GT(simulate(job, on(ExponentialGraph{})).step, 0.99 * 4 * even);
}

TEST(Gossip, TwoRanksAreAPair) {
  const Job job = toy_job(4, 10e6, 2);
  const double step = gradient + update + flatten + mean_of_two;
  for (const GossipGraph& graph :
       {GossipGraph{RingGraph{}}, GossipGraph{ExponentialGraph{}}, GossipGraph{PairsGraph{}}}) {
    const Numbers result = simulate(job, on(graph));
    EXPECT_LT(relative(result.step, step), near) << graph.index();
    EXPECT_LT(relative(sum(result.split), result.step), near);
    EXPECT_EQ(result.samples, 2 * 32);
  }
}

// If a pair's exchange takes several steps, the steps continue, and only one in several is
// averaged.
TEST(Gossip, PairsDoNotWaitForASlowNetwork) {
  Job job = toy_job(4, 10e6, 2);
  job.machine.gpus_per_node = 1;
  job.machine.fabric.nics_per_node = 1;
  job.machine.fabric.nic_bytes_per_second = 1.6e9;
  job.simulation.steps = 800;
  const double exchange = send_seconds(job, {.nodes = 2}, model);
  const double alone = gradient + update, average = flatten + mean_of_two;
  ASSERT_GT(exchange, 2 * alone);
  const double steps = std::floor(exchange / alone) + 1;  // steps from one average to the next
  EXPECT_LT(relative(simulate(job, on(PairsGraph{})).step, alone + average / steps), 1e-3);
  EXPECT_NEAR(models(job, on(PairsGraph{}), LinkClass::nic), 2 / steps, 0.01);
  // Without overlap the rank that asks for an average waits, and the rank that answers does not.
  const double asks = exchange + alone + average, answers = alone / (1 - average / asks);
  EXPECT_LT(relative(simulate(job, on(PairsGraph{}, false)).step, 2 / (1 / asks + 1 / answers)),
            0.01);
}

// An exchange that lasts for some of a step's micro-batches slows these down, and hides behind the
// whole step.
TEST(Gossip, AnExchangeHidesBehindManyMicroBatches) {
  Job job = toy_job(4, 10e6, 2);
  job.machine.gpus_per_node = 1;
  job.machine.fabric.nics_per_node = 1;
  job.machine.fabric.nic_bytes_per_second = 1.6e9;
  job.accumulation = 20;
  ASSERT_GT(send_seconds(job, {.nodes = 2}, model), 2 * gradient);
  const double sums = 19 * 3 * model / 1e12;  // the gradients of later micro-batches are added
  const double hidden = 20 * gradient + sums + update + flatten + mean_of_two;
  for (const bool overlap : {true, false}) {
    const double waits = overlap ? 0 : send_seconds(job, {.nodes = 2}, model);
    EXPECT_LT(relative(simulate(job, on(RingGraph{}, overlap)).step, hidden + waits), near);
  }
  EXPECT_LT(relative(simulate(job, on(PairsGraph{})).step, hidden), near);
}

TEST(Gossip, OnOneGpuNobodyAverages) {
  for (const GossipGraph& graph :
       {GossipGraph{RingGraph{}}, GossipGraph{ExponentialGraph{}}, GossipGraph{PairsGraph{}}}) {
    const Numbers result = simulate(toy_job(4, 10e6, 1), on(graph));
    EXPECT_LT(relative(result.step, gradient + update), near);
    EXPECT_EQ(result.traffic, 0);
  }
}

TEST(Gossip, KeepsItsOwnParametersAndThoseItReceives) {
  const Job job = toy_job();
  const auto allocated = [&](const StrategyOptions& options) {
    return make_strategy(options)->memory(job).allocated;
  };
  EXPECT_NEAR(allocated(on(RingGraph{})) - allocated(on(PairsGraph{})), model, mib);
  EXPECT_NEAR(allocated(on(PairsGraph{})), allocated(on(ExponentialGraph{})), mib);
  EXPECT_LE(allocated(on(RingGraph{}, false)), allocated(on(RingGraph{})));
  Job alone = job;
  alone.mesh.data = 1;
  EXPECT_EQ(make_strategy(on(RingGraph{}))->memory(alone).allocated,
            make_strategy(LocalSgdOptions{})->memory(alone).allocated);
}

TEST(Gossip, TellsTheReplayWhoAveragesWithWhom) {
  Job job = toy_job();
  job.simulation.steps = 6;
  const auto file = std::filesystem::path(::testing::TempDir()) / "gossip.schedule";
  job.simulation.schedule_file = file.string();
  const auto schedule = [&](const GossipOptions& options) {
    simulate(job, options);
    return read_schedule(file.string());
  };
  UpdateSchedule ring = schedule(on(RingGraph{}));
  ASSERT_EQ(ring.averages.size(), 5u);
  EXPECT_EQ(ring.averages[0].steps_before, 8);  // beside the second step
  EXPECT_EQ(ring.averages[0].mixes[0].peers, (std::vector{7, 1}));
  EXPECT_EQ(ring.pushes[8].read, 0);
  EXPECT_EQ(ring.pushes[16].read, 1);
  ring = schedule(on(RingGraph{}, false, 2));
  ASSERT_EQ(ring.averages.size(), 3u);
  EXPECT_EQ(ring.averages[1].steps_before, 3 * 8);
  EXPECT_EQ(ring.pushes[3 * 8].read, 2);
  const UpdateSchedule far = schedule(on(ExponentialGraph{}));
  EXPECT_EQ(far.averages[2].mixes[1].peers, std::vector{5});
  const UpdateSchedule near_only = schedule(on(PairsGraph{PairPartners::ring}));
  EXPECT_GE(near_only.averages.size(), 6u * 4);
  for (const ScheduledAverage& average : near_only.averages) {
    ASSERT_EQ(average.mixes.size(), 2u);
    const int asks = average.mixes[0].worker, answers = average.mixes[1].worker;
    EXPECT_EQ(asks % 2, 0);
    EXPECT_TRUE((asks + 1) % 8 == answers || (answers + 1) % 8 == asks);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace lockstep::gossip_test
