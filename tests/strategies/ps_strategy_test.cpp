// Does a whole job on a machine follow the formulas for placements, keys, traffic and memory?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/errors.hpp"
#include "edit_step.hpp"
#include "ps_fixture.hpp"
#include "ps_job.hpp"
#include "strategies/parameter_server/build.hpp"

namespace lockstep::testing::ps_strategy_test {
namespace {

// Each GPU has its own PCIe link, and host memory is fast: T = compute + M/PCIe + sums and update +
// M/PCIe.
TEST(ParameterServerJob, SynchronousOnTheHostOfOneNode) {
  for (const int gpus : {1, 2, 4}) {
    const Job job = toy_job(gpus);
    const StrategyResult result = ParameterServer({}).simulate(job);
    const double copy = 8e-6 + kModelBytes / 24e9;
    const double memory = 0.8 * 200e9;
    const double sums = gpus == 1 ? 0 : (2 + 3 * (gpus - 1)) * kModelBytes / memory;
    const double update =
        host_optimizer_seconds(job.optimizer, job.step->precision, 50e6, job.machine.host);
    const double compute = 30e-3 + 0.1e-3;
    EXPECT_NEAR(mean_of(result) / (compute + 2 * copy + sums + update), 1, 1e-9) << gpus;
    EXPECT_NEAR(result.first_step_seconds / mean_of(result), 1, 1e-9);
    EXPECT_TRUE(result.extrapolated);
    EXPECT_NEAR(total(result.split) / mean_of(result), 1, 1e-9);
    EXPECT_NEAR(result.split.exposed_communication / (2 * copy), 1, 1e-9);
    EXPECT_NEAR(result.split.host_bound, 0.1e-3, 1e-9);
    EXPECT_DOUBLE_EQ(result.samples_per_step, 32 * gpus);
    ASSERT_TRUE(result.staleness.has_value());
    EXPECT_EQ(result.staleness->max, 0);
    EXPECT_DOUBLE_EQ(busy_of(result, "PCIe"), kModelBytes);
    EXPECT_DOUBLE_EQ(busy_of(result, "host memory"), 2 * gpus * kModelBytes);
  }
}

// If the host's memory bandwidth is unknown, sums take no time instead of an infinite time.
TEST(ParameterServerJob, UnknownMemoryOfTheHostIsNotWaitedFor) {
  Job job = toy_job(4);
  const double usual = mean_of(ParameterServer({}).simulate(job));
  job.machine.host.memory_bandwidth = 0;
  const double unknown = mean_of(ParameterServer({}).simulate(job));
  EXPECT_GE(unknown, 30e-3 + 2 * kModelBytes / 24e9);
  EXPECT_LT(unknown, usual);
}

// The loader takes longer than all else and sets the pace, once for each micro-batch.
TEST(ParameterServerJob, EveryMicroBatchWaitsForItsData) {
  for (const int micro_batches : {1, 2, 4}) {
    Job job = toy_job(2);
    job.accumulation = micro_batches;
    job.data_loading_seconds = 0.5;
    EXPECT_NEAR(mean_of(ParameterServer({}).simulate(job)), 0.5 * micro_batches, 1e-9);
  }
}

// Each worker's push has a buffer of its own, with the bytes per element that travel. Tensors of 10
// and 20 MiB fill their segments, so nothing is rounded.
TEST(ParameterServerJob, ServerOnGpuReceivesWhatWorkersPush) {
  constexpr std::int64_t of_a_layer = 5 << 20;
  const auto of_server = [](Precision precision, double element_bytes) {
    Job job = toy_job(4);
    edit_step(job).precision = precision;
    edit_step(job).parameter_count = 10 * of_a_layer;
    for (Layer& layer : edit_step(job).layers) {
      layer.parameters[0].count = of_a_layer;
      layer.parameters[0].shape = {of_a_layer};
    }
    ParameterServerOptions on_gpu, on_host;
    on_gpu.placement = ServerPlacement::gpu;
    on_gpu.element_bytes = on_host.element_bytes = element_bytes;
    return ParameterServer(on_gpu).memory(job).allocated -
           ParameterServer(on_host).memory(job).allocated;
  };
  const double elements = 10.0 * of_a_layer;
  // Fp32 gradients of bf16 parameters take 4 bytes instead of 2 in each buffer, and the update
  // needs no wider copy of their sum.
  EXPECT_EQ(of_server(Precision::master_bf16_fp32_gradients, 0),
            of_server(Precision::master_bf16, 0) + (4 * 2 - 4) * elements);
  EXPECT_EQ(of_server(Precision::fp32, 2), of_server(Precision::fp32, 0) - 4 * 2 * elements);
}

// With one GPU per node the NIC of node 0 carries the pushes of all other nodes (fact 78).
TEST(ParameterServerJob, SynchronousAcrossNodesIsBoundByTheServersNic) {
  for (const int gpus : {2, 5, 32}) {
    Job job = toy_job(gpus, 1);
    const StrategyResult result = ParameterServer({}).simulate(job);
    const double remote = 8e-6 + 2e-6 + (gpus - 1) * kModelBytes / 10e9;
    const double memory = 0.8 * 200e9;
    const double local = 8e-6 + kModelBytes / 24e9;
    const double add = 3 * kModelBytes / memory;
    // Worker 0's gradient is there early; the others arrive together.
    ASSERT_LT(local + 2 * kModelBytes / memory, remote);
    const double sums = (gpus - 1) * add;
    const double update =
        host_optimizer_seconds(job.optimizer, job.step->precision, 50e6, job.machine.host);
    EXPECT_NEAR(mean_of(result) / (30.1e-3 + 2 * remote + sums + update), 1, 1e-9) << gpus;
    EXPECT_DOUBLE_EQ(busy_of(result, "NIC"), (gpus - 1) * kModelBytes);
  }
}

// Each leaf switch has two nodes and an uplink as fast as half a NIC. The two workers of the other
// leaf share the uplinks; the worker of the server's leaf does not need them.
TEST(ParameterServerJob, UplinksOfAnOversubscribedTreeAreShared) {
  Job job = toy_job(4, 1);
  job.machine.fabric.nodes_per_leaf = 2;
  job.machine.fabric.oversubscription = 4;
  const StrategyResult result = ParameterServer({}).simulate(job);
  const double uplink = 10e9 * 2 / 4;
  const double remote = 8e-6 + 2e-6 + 2 * kModelBytes / uplink;
  const double add = 3 * kModelBytes / (0.8 * 200e9);
  const double update =
      host_optimizer_seconds(job.optimizer, job.step->precision, 50e6, job.machine.host);
  EXPECT_NEAR(mean_of(result) / (30.1e-3 + 2 * remote + 2 * add + update), 1, 1e-9);
  EXPECT_DOUBLE_EQ(busy_of(result, "uplink"), 2 * kModelBytes);
  job.machine.fabric.nodes_per_leaf = 4;  // all below one switch
  const StrategyResult star = ParameterServer({}).simulate(job);
  EXPECT_NEAR(mean_of(result) - mean_of(star), 2 * (4 - 3) * kModelBytes / 10e9 - add, 1e-6);
  EXPECT_EQ(busy_of(star, "uplink"), 0);
}

// A trunk between two pairs of nodes has the same effect as the uplinks.
TEST(ParameterServerJob, TrunksAreShared) {
  Job job = toy_job(4, 1);
  const double rate = 5e9;
  job.machine.fabric.trunks = {{{2, 3}, {0, 1}, rate / job.machine.fabric.efficiency}};
  const StrategyResult result = ParameterServer({}).simulate(job);
  const double remote = 8e-6 + 2e-6 + 2 * kModelBytes / rate;
  const double add = 3 * kModelBytes / (0.8 * 200e9);
  const double update =
      host_optimizer_seconds(job.optimizer, job.step->precision, 50e6, job.machine.host);
  EXPECT_NEAR(mean_of(result) / (30.1e-3 + 2 * remote + 2 * add + update), 1, 1e-9);
  EXPECT_DOUBLE_EQ(busy_of(result, "trunk"), 2 * kModelBytes);
  EXPECT_EQ(busy_of(result, "uplink"), 0);
}

// A degraded uplink slows only the traffic of its leaf.
TEST(ParameterServerJob, OneUplinkMayBeSlow) {
  Job job = toy_job(6, 1);
  job.machine.fabric.nodes_per_leaf = 2;
  job.machine.fabric.oversubscription = 2;
  const auto remote = [&](int node) {
    job.stragglers.slow_links = {{LinkClass::uplink, node, 0.25}};
    return mean_of(ParameterServer({}).simulate(job));
  };
  job.stragglers.slow_links.clear();
  const double usual = mean_of(ParameterServer({}).simulate(job));
  // All four remote pushes enter the server's leaf over 10 GB/s, of which a quarter is left.
  EXPECT_NEAR(remote(1) - usual, 2 * (4 * kModelBytes / 2.5e9 - 5 * kModelBytes / 10e9),
              0.1 * usual);
  EXPECT_EQ(remote(2), remote(3));  // both nodes are below one leaf
  EXPECT_LT(remote(2), remote(1));
  EXPECT_GT(remote(2), usual);
}

// A neighbor takes half of every NIC, so three pushes and answers through the server's NIC take
// twice as long. If the neighbor sends half of the time, in many short bursts, they take a third
// longer.
TEST(ParameterServerJob, NeighboursTakeTheirShareOfLinks) {
  Job job = toy_job(4, 1);
  job.simulation.steps = 200;
  const double usual = mean_of(ParameterServer({}).simulate(job));
  const double moving = 2 * 3 * kModelBytes / 10e9;
  job.stragglers.neighbours = {{LinkClass::nic, {}, 0.5, {}, {}}};
  EXPECT_NEAR(mean_of(ParameterServer({}).simulate(job)) - usual, moving, 1e-9 * usual);
  job.stragglers.neighbours[0].nodes = {0};
  EXPECT_NEAR(mean_of(ParameterServer({}).simulate(job)) - usual, moving, 1e-9 * usual);
  job.stragglers.neighbours[0].lasts = 1e-3;
  job.stragglers.neighbours[0].every = 2e-3;
  const StrategyResult bursts = ParameterServer({}).simulate(job);
  EXPECT_FALSE(bursts.extrapolated);
  EXPECT_NEAR((mean_of(bursts) - usual) / moving, 1 / 0.75 - 1, 0.02);
  job.stragglers.neighbours[0].nodes = {1};  // a worker's NIC has more capacity than needed
  EXPECT_LT(mean_of(ParameterServer({}).simulate(job)) - usual, 0.02 * moving);
}

// With a server on every host, each server holds 1/N of the model, and the NICs of all nodes carry
// traffic.
TEST(ParameterServerJob, ServersOnWorkersHostsSpreadTheTraffic) {
  const int nodes = 4;
  ParameterServerOptions options;
  options.servers = nodes;
  const Job job = toy_job(nodes, 1);
  const StrategyResult one_host = ParameterServer(options).simulate(job);
  options.placement = ServerPlacement::worker_host;
  const StrategyResult all_hosts = ParameterServer(options).simulate(job);
  EXPECT_DOUBLE_EQ(busy_of(one_host, "NIC"), (nodes - 1) * kModelBytes);
  // A node's pushes to the other servers and its server's answers leave through the same NIC.
  EXPECT_DOUBLE_EQ(busy_of(all_hosts, "NIC"), 2 * (nodes - 1) * kModelBytes / nodes);
  EXPECT_LT(mean_of(all_hosts), 0.5 * mean_of(one_host));
  EXPECT_LT(all_hosts.split.exposed_communication, 0.4 * one_host.split.exposed_communication);
}

// With servers on hosts of their own every worker is remote, and S NICs share the traffic.
TEST(ParameterServerJob, ServersOnHostsOfTheirOwnAreFarFromEveryWorker) {
  for (const int servers : {1, 2, 4}) {
    ParameterServerOptions options;
    options.placement = ServerPlacement::own_hosts;
    options.servers = servers;
    options.keys = KeyRule::ranges;
    const int gpus = 6;
    const Job job = toy_job(gpus, 1);
    const StrategyResult result = ParameterServer(options).simulate(job);
    const double part = kModelBytes / servers;
    const double remote = 8e-6 + 2e-6 + gpus * part / 10e9;
    const double sums = (2 + 3 * (gpus - 1)) * part / (0.8 * 200e9);
    const double update = host_optimizer_seconds(job.optimizer, job.step->precision, 50e6 / servers,
                                                 job.machine.host);
    EXPECT_NEAR(mean_of(result) / (30.1e-3 + 2 * remote + sums + update), 1, 1e-9) << servers;
    EXPECT_DOUBLE_EQ(busy_of(result, "NIC"), gpus * part);
  }
  ParameterServerOptions options;
  options.placement = ServerPlacement::own_hosts;
  EXPECT_THROW(ParameterServer(options).simulate(toy_job(2, 8, 1)), ConfigError);
}

// Servers' own hosts are numbered after the workers' nodes. If such a host's card has half its
// rate, its server's transfers take twice as long, and all workers wait for these.
TEST(ParameterServerJob, AServersOwnHostMayHaveASlowCard) {
  ParameterServerOptions options;
  options.placement = ServerPlacement::own_hosts;
  options.servers = 2;
  options.keys = KeyRule::ranges;
  const int gpus = 6;
  Job job = toy_job(gpus, 1);
  const double usual = mean_of(ParameterServer(options).simulate(job));
  const double transfer = gpus * kModelBytes / 2 / 10e9;
  for (const int node : {gpus, gpus + 1}) {
    job.stragglers.slow_links = {{LinkClass::nic, node, 0.5}};
    const double slow = mean_of(ParameterServer(options).simulate(job));
    EXPECT_NEAR((slow - usual) / (2 * transfer), 1, 1e-9) << node;
  }
  job.stragglers.slow_links = {};
  job.stragglers.neighbours = {{LinkClass::nic, {gpus + 1}, 0.5, {}, {}}};
  const double busy = mean_of(ParameterServer(options).simulate(job));
  EXPECT_NEAR((busy - usual) / (2 * transfer), 1, 1e-9);
}

TEST(ParameterServerJob, ServerOnGpuUsesNvlinkAndTheDevicesMemory) {
  ParameterServerOptions options;
  const Job job = toy_job(4);
  const StrategyResult on_host = ParameterServer(options).simulate(job);
  const double allocated_on_host = ParameterServer(options).memory(job).allocated;
  options.placement = ServerPlacement::gpu;
  const StrategyResult on_gpu = ParameterServer(options).simulate(job);
  EXPECT_LT(mean_of(on_gpu), mean_of(on_host));
  EXPECT_DOUBLE_EQ(busy_of(on_gpu, "NVLink"), 3 * kModelBytes);
  EXPECT_DOUBLE_EQ(busy_of(on_gpu, "PCIe"), 0);
  EXPECT_GE(ParameterServer(options).memory(job).allocated, allocated_on_host + kModelBytes);
}

// NCCL's measured rate between the GPUs of this machine limits all copies of a GPU together, in
// each direction. More servers or more GPUs do not raise it.
TEST(ParameterServerJob, CopiesOfAGpuShareItsPathThroughTheHost) {
  const auto seconds = [](int gpus, int servers) {
    Job job = toy_job(gpus, 4);
    job.machine = load_machine("g5.12xlarge");
    ParameterServerOptions options;
    options.servers = servers;
    options.placement = ServerPlacement::gpu;
    options.keys = KeyRule::ranges;
    return mean_of(ParameterServer(options).simulate(job));
  };
  const double all = 10 * 5e6 * 4;  // bytes of parameters, and of gradients
  const double path = load_machine("g5.12xlarge").pcie.host_path_bytes_per_second;
  ASSERT_EQ(path, 3.1e9);
  for (int gpus = 2; gpus <= 4; ++gpus) {
    for (const int servers : {1, 2, 3, 4, 8, 64}) {
      // A GPU sends its gradients to the others' servers and its server's parameters to the others'
      // workers.
      double most = 0;
      for (int gpu = 0; gpu < gpus; ++gpu) {
        const int own = servers / gpus + (gpu < servers % gpus ? 1 : 0);
        const double here = static_cast<double>(own) / servers * all;
        most = std::max(most, all - here + (gpus - 1) * here);
      }
      EXPECT_GE(seconds(gpus, servers), most / path * (1 - 1e-9)) << gpus << " " << servers;
    }
  }
  // With one server, each further GPU adds a push and a pull, one after the other.
  EXPECT_NEAR(seconds(3, 1) - seconds(2, 1), 2 * all / path, 0.02 * all / path);
  EXPECT_NEAR(seconds(4, 1) - seconds(3, 1), 2 * all / path, 0.02 * all / path);
}

// Three workers push to the first GPU's server and pull from it. Each message leaves one GPU and
// enters another; the limit of the copies' rate must not count as a further link.
TEST(ParameterServerJob, CopiesBetweenGpusCountOncePerPcieLink) {
  Job job = toy_job(4, 4);
  job.machine = load_machine("g5.12xlarge");
  ParameterServerOptions options;
  options.placement = ServerPlacement::gpu;
  const StrategyResult result = ParameterServer(options).simulate(job);
  double all = 0;
  for (const LinkTraffic& traffic : result.traffic) {
    if (traffic.link_class == "PCIe") all += traffic.total_bytes;
  }
  EXPECT_DOUBLE_EQ(busy_of(result, "PCIe"), 3 * kModelBytes);
  EXPECT_DOUBLE_EQ(all, 3 * 2 * 2 * kModelBytes);
}

TEST(ParameterServerLinks, RoutesThatDifferInAnythingStayApart) {
  PsRoute quick{.links = {}, .cap = 1e9, .latency = 1e-5};
  PsRoute busy = quick, measured = quick;
  busy.cores = 0.5;
  measured.measured = 2;
  PsLinks links;
  for (const PsRoute& route : {quick, busy, measured, quick})
    links.ways.push_back({{route, route, true}});
  PsSystem system;
  simplify(links, true, system);
  EXPECT_EQ(system.routes.size(), 3u);
  EXPECT_EQ(system.workers[0].ways, system.workers[3].ways);
}

TEST(ParameterServerJob, AsynchronousEqualWorkersHaveStalenessWMinusOne) {
  ParameterServerOptions options;
  options.consistency = Consistency::async;
  for (const int gpus : {1, 2, 4, 8}) {
    const StrategyResult result = ParameterServer(options).simulate(toy_job(gpus));
    ASSERT_TRUE(result.staleness.has_value());
    EXPECT_NEAR(result.staleness->mean, gpus - 1, 1e-9);
    EXPECT_NEAR(total(result.split) / mean_of(result), 1, 1e-9);
  }
}

// With a splitting of one, an update takes a push from each worker, and no worker waits: all but
// the last worker of a round get the weights from before the update. Simulating equal workers as
// one would hide this, and taking the steps as equal would end the run early. A tiny jitter forbids
// both, and must give the same result.
TEST(ParameterServerJob, SoftsyncWithOneUpdateARoundDoesNotKeepStep) {
  Job job = toy_job(8);
  job.simulation.network = NetworkKind::analytic;
  job.simulation.steps = 100;
  ParameterServerOptions options;
  options.consistency = Consistency::softsync;
  options.splitting = 1;
  const StrategyResult even = ParameterServer(options).simulate(job);
  job.stragglers.per_step = Lognormal{1e-5};
  const StrategyResult drawn = ParameterServer(options).simulate(job);
  EXPECT_NEAR(mean_of(even) / mean_of(drawn), 1, 0.01);
  EXPECT_NEAR(even.staleness->mean / drawn.staleness->mean, 1, 0.01);
  EXPECT_NEAR(even.staleness->mean, 7.0 / 8, 0.01);
  EXPECT_FALSE(even.extrapolated);
}

TEST(ParameterServerJob, OverlapHidesPushesBehindBackward) {
  ParameterServerOptions options;
  const Job job = toy_job(4);
  const StrategyResult plain = ParameterServer(options).simulate(job);
  options.overlap = true;
  const StrategyResult overlapped = ParameterServer(options).simulate(job);
  EXPECT_LT(mean_of(overlapped), mean_of(plain));
  EXPECT_LT(overlapped.split.exposed_communication, plain.split.exposed_communication);
  EXPECT_DOUBLE_EQ(busy_of(overlapped, "PCIe"), busy_of(plain, "PCIe"));
}

TEST(ParameterServerJob, PartitionsOverlapTransferAndUpdateAndAreNotEndless) {
  ParameterServerOptions options;
  const Job job = toy_job(4);
  const StrategyResult whole = ParameterServer(options).simulate(job);
  options.partition_bytes = 4e6;
  EXPECT_LT(mean_of(ParameterServer(options).simulate(job)), mean_of(whole));
  options.partition_bytes = 1;
  const PsJob tiny = build_parameter_server(job, options);
  EXPECT_LE(tiny.system.messages.size(), 4096U + job.step->layers.size());
  EXPECT_FALSE(tiny.notes.empty());
}

TEST(ParameterServerJob, ClippingComesBeforeThePush) {
  Job job = toy_job(2);
  job.gradient_clipping = 1;
  ParameterServerOptions options;
  options.overlap = true;
  const StrategyResult result = ParameterServer(options).simulate(job);
  EXPECT_NEAR(result.split.copies, clipping_bytes(job.step->precision, 50e6) / 1e12, 1e-12);
  EXPECT_FALSE(result.notes.empty());
}

TEST(ParameterServerJob, AccumulationRepeatsComputeOnly) {
  Job job = toy_job(2);
  const double once = mean_of(ParameterServer({}).simulate(job));
  job.accumulation = 3;
  const StrategyResult thrice = ParameterServer({}).simulate(job);
  EXPECT_NEAR(mean_of(thrice) - once, 2 * 30e-3, 1e-9);
  EXPECT_DOUBLE_EQ(thrice.samples_per_step, 3 * 64);
}

TEST(ParameterServerJob, AnalyticNetworkKnowsNoContention) {
  Job job = toy_job(5, 1);
  job.simulation.network = NetworkKind::analytic;
  const StrategyResult result = ParameterServer({}).simulate(job);
  EXPECT_NEAR(result.split.exposed_communication,
              0.8 * 2 * (10e-6 + kModelBytes / 10e9) + 0.2 * 2 * (8e-6 + kModelBytes / 24e9), 2e-3);
  EXPECT_DOUBLE_EQ(busy_of(result, "NIC"), 4 * kModelBytes);
}

TEST(ParameterServerJob, CommunicationScaleStretchesTransfers) {
  Job job = toy_job(4);
  const StrategyResult plain = ParameterServer({}).simulate(job);
  job.communication_scale = 1.5;
  const StrategyResult scaled = ParameterServer({}).simulate(job);
  EXPECT_NEAR(scaled.split.exposed_communication / plain.split.exposed_communication, 1.5, 1e-9);
}

TEST(ParameterServerJob, SlowRankHoldsUpSynchronousTrainingOnly) {
  Job job = toy_job(8);
  job.machine.pcie.generation = 8;  // compute dominates
  job.machine.host.memory_bandwidth = 1e14;
  ParameterServerOptions options;
  const auto ratio = [&] {
    job.stragglers.slow_ranks.clear();
    const double even = mean_of(ParameterServer(options).simulate(job));
    job.stragglers.slow_ranks.push_back({3, 2.0});
    return mean_of(ParameterServer(options).simulate(job)) / even;
  };
  const double sync = ratio();
  options.consistency = Consistency::async;
  const double async = ratio();
  EXPECT_GT(sync, 1.8);
  EXPECT_LT(async, 1.1);
}

TEST(ParameterServerJob, OthersWaitForOneSlowRankWhenSynchronousOnly) {
  Job job = toy_job(8);
  job.machine.pcie.generation = 8;  // compute dominates
  job.machine.host.memory_bandwidth = 1e14;
  const double compute = ParameterServer({}).simulate(job).device_busy;
  job.stragglers.slow_ranks.push_back({3, 2.0});
  ParameterServerOptions options;
  for (const Consistency consistency : {Consistency::sync, Consistency::async}) {
    options.consistency = consistency;
    const StrategyResult result = ParameterServer(options).simulate(job);
    const double step = mean_of(result);
    int ranks = 0;
    double waiting = 0;
    for (const RankTimes& times : result.ranks) {
      const bool others = consistency == Consistency::sync && times.rank != 3;
      EXPECT_NEAR(times.waiting, others ? compute : 0, 0.02 * compute) << times.rank;
      EXPECT_NEAR(times.own + times.communicating + times.waiting, step, 1e-9 * step);
      ranks += times.ranks;
      waiting += times.ranks * times.waiting;
    }
    EXPECT_EQ(ranks, 8);
    EXPECT_NEAR(waiting / ranks, result.split.waiting, 1e-9 * step);
  }
}

TEST(ParameterServerJob, WorkersAreAsSlowAsTheirRankIsAndAsIsDrawn) {
  Job job = toy_job(4);
  job.stragglers.slow_ranks = {{.rank = 1, .factor = 1.5}};
  job.stragglers.per_step = Lognormal{0.2};
  job.stragglers.slow_periods = SlowPeriods{};
  ParameterServerOptions options;
  options.consistency = Consistency::async;
  const PsSystem system = build_parameter_server(job, options).system;
  ASSERT_EQ(system.workers.size(), 4U);
  for (int worker = 0; worker < 4; ++worker) {
    for (const int step : {0, 1, 17}) {
      EXPECT_EQ(system.factor(worker, step),
                (worker == 1 ? 1.5 : 1) *
                    varying_factor(job.stragglers, job.simulation.seed, worker, step));
    }
  }
}

TEST(ParameterServerJob, ThousandsOfRanksStayCheap) {
  ParameterServerOptions options;
  Job job = toy_job(4096, 8, 512);
  job.simulation.steps = 100;
  const StrategyResult sync = ParameterServer(options).simulate(job);
  EXPECT_LE(sync.step_seconds.size(), 4U);
  options.consistency = Consistency::async;
  const StrategyResult async = ParameterServer(options).simulate(job);
  EXPECT_GE(async.step_seconds.size(), 4U);
  EXPECT_NEAR(total(async.split) / mean_of(async), 1, 1e-9);
}

RC_GTEST_PROP(ParameterServerJob, SimplifiedLinksGiveTheSameTimes, ()) {
  const int gpus = *rc::gen::inRange(1, 13);
  Job job = toy_job(gpus, *rc::gen::element(1, 2, 4), 16);
  // The count is divisible by all numbers of servers. Messages of unequal size that arrive at the
  // same time would be served in an order that rounding decides.
  for (Layer& layer : edit_step(job).layers) layer.parameters[0].count = 6'000'000;
  edit_step(job).parameter_count = 60'000'000;
  job.machine.pcie.gpus_per_switch = *rc::gen::element(1, 2);
  job.machine.fabric.gpu_direct = *rc::gen::arbitrary<bool>();
  job.machine.fabric.nodes_per_leaf = *rc::gen::inRange(0, 4);
  job.machine.fabric.oversubscription = *rc::gen::element(1.0, 2.3, 7.1);
  if (*rc::gen::arbitrary<bool>()) {
    const LinkClass link = *rc::gen::element(LinkClass::nic, LinkClass::uplink, LinkClass::pcie);
    job.stragglers.neighbours = {{link, {}, 0.61, 11e-3, 17e-3}, {link, {1}, 0.3, 3e-3, 9e-3}};
    job.stragglers.slow_links = {{link, 0, 0.83}};
  }
  // The spread is not a round number for the same reason: gradients of ranks with speeds of 9 to 10
  // to 11 would arrive together.
  job.stragglers.per_rank_sigma = *rc::gen::element(0.0, 0.0937);
  ParameterServerOptions options;
  options.servers = *rc::gen::inRange(1, 4);
  options.placement = *rc::gen::element(ServerPlacement::cpu, ServerPlacement::gpu,
                                        ServerPlacement::worker_host, ServerPlacement::own_hosts);
  options.overlap = *rc::gen::arbitrary<bool>();
  PsJob ps = build_parameter_server(job, options);
  ps.system.steady = false;
  ps.system.steps = 5;
  const PsTrace simple = run_parameter_server(ps.system);

  // The reference keeps every link as a link and every rank as a worker.
  PsSystem& full = ps.system;
  const RankSpeeds speeds(job);
  full.factor = [&, factors = speeds.factors(0)](int w, int) {
    return factors[static_cast<std::size_t>(speeds.lane_of_rank()[static_cast<std::size_t>(w)])];
  };
  full.links.clear();
  for (const PsLink& link : ps.links.links) full.links.push_back(link.capacity);
  full.neighbours.clear();
  add_changes(job, ps.links.links, full);
  full.routes.clear();
  full.workers.clear();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(gpus); ++rank) {
    PsWorker worker;
    for (const PsLinks::Way& way : ps.links.ways[rank]) {
      const int routes = static_cast<int>(full.routes.size());
      worker.ways.push_back({routes, routes + 1, way.one_lane});
      full.routes.insert(full.routes.end(), {way.push, way.pull});
    }
    full.workers.push_back(worker);
  }
  const PsTrace reference = run_parameter_server(full);
  RC_ASSERT(simple.step_ends.size() == reference.step_ends.size());
  for (std::size_t i = 0; i < simple.step_ends.size(); ++i) {
    RC_ASSERT(std::abs(simple.step_ends[i] / reference.step_ends[i] - 1) < 1e-9);
  }
}

}  // namespace
}  // namespace lockstep::testing::ps_strategy_test
