// Which methods of recovery does a scenario accept or refuse, and do their results follow closed
// forms?
#include "core/data.hpp"
#include "costs/nccl_topology.hpp"
#include "points/checkpoints.hpp"
#include "points/faults.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::recovery_points_test {
namespace {

using testing::HasSubstr;

const std::string run_of_days = "dataset: {time: 10 d}\n";
const std::string sharded =
    "model: llama3.2-1b\ninput: {sequence: 512}\nplatform: dgx-h100\ngpus: 32\n"
    "optimizer: {name: adamw}\nsimulation: {steps: 2}\n" +
    run_of_days + "strategies: [fsdp]\n";

Prediction predicted(const std::string& text) {
  const ResultRecord record = run_scenario(scenario_of(text));
  EXPECT_FALSE(record.predictions.empty());
  return record.predictions.at(0);
}

TEST(Recovery, WhatCannotBeIsRefusedWithItsPlace) {
  struct Case {
    const char* text;
    const char* message;
  };
  const std::string job = "platform: a100-sxm4-80gb-x4\ngpus: 8\n" + run_of_days;
  const std::string async = "strategies: [parameter_server: {consistency: async}]\n";
  for (const auto& [text, message] : std::initializer_list<Case>{
           {"faults: {hot_restart: 1 min}\n", "hot_restart: has no effect without spare nodes"},
           {"faults: {reconfigure: 1 min}\n", "no effect without recovery: replicas"},
           {"faults: {degraded: {factor: 2}}\n", "no effect: no node becomes slow"},
           {"faults: {at: [{time: 1 h, slows: 1}]}\n", "degraded: missing"},
           {"faults: {at: [{time: 1 h, slows: 2}], degraded: {}}\n", "there is no node 2"},
           {"faults: {degraded: {mean_time: 9 d, evict_after: 1 h}}\n", "repair: missing"},
           {"faults: {until: {runs: 20}}\n", "no more runs than `runs`"},
           {"faults: {runs: 5, until: {}}\n", "too few for an interval"},
           {"faults: {recovery: replicas, min_nodes: 3}\n", "but the job has 2 nodes"},
           {"strategies: [fsdp]\nfaults: {recovery: replicas}\n",
            "replicas: fsdp on 8 GPUs is not several replicas of whole nodes"},
           {"strategies: [parameter_server: {}]\nfaults: {recovery: replicas}\n",
            "replicas: parameter_server on 8 GPUs keeps its state in servers"},
           {"strategies: [parameter_server: {}]\nfaults: {}\ncheckpoint: {peers: {}}\n",
            "peers: parameter_server on 8 GPUs keeps its state in servers"},
           {"faults: {}\ncheckpoint: {peers: {}}\n",
            "peers: ddp on 8 GPUs keeps its state in 1 of 2 nodes"},
           {"strategies: [fsdp]\nfaults: {}\ncheckpoint: {peers: {copies: 3}}\n",
            "3 copies, but fsdp on 8 GPUs has 2 nodes"},
       }) {
    const std::string what = refusal([&] { expand(scenario_of(job + text)); });
    EXPECT_THAT(what, HasSubstr(message)) << text;
    EXPECT_THAT(what, testing::MatchesRegex("test.yaml:[0-9]+:[0-9]+: .*")) << text;
  }
}

// Eight of 32 ranks on each host copy their shares, each over its own link and all through the
// host's memory: the slower of both sets the stall.
TEST(Recovery, AStagedCheckpointStallsForTheCopyOfARanksState) {
  const std::string staged = sharded + "faults: {}\ncheckpoint: {every: 1 h, write: staged}\n";
  const Point point = expand(scenario_of(staged)).at(0);
  const RunWithFailures run = predicted(staged).with_failures.value();
  const Machine& machine = point.job.machine;
  const double share = run.checkpoint_bytes / 32;
  const double link = host_device_copy(machine, share).seconds(share);
  const double memory =
      host_device_copy(machine, share).latency_seconds + 8 * share / machine.host.memory_bandwidth;
  EXPECT_NEAR(run.checkpoint_stall_seconds, std::max(link, memory), 1e-9);
  EXPECT_NEAR(host_device_copy(machine, share).bytes_per_second,
              pcie_bytes_per_second(machine.pcie), 1);
  EXPECT_NEAR(run.checkpoints, 240 * run.checkpoint_stall_seconds, 1e-9);
}

TEST(Recovery, ThePeriodIsDalysForTheStallAndAtLeastTheWrite) {
  const std::string fails = sharded + "faults: {mean_time_between_failures: {job: 1 d}}\n";
  const RunWithFailures fast =
      predicted(fails + "checkpoint: {write: staged, bandwidth: 100 GB/s}\n").with_failures.value();
  const double daly = best_checkpoint_period(fast.checkpoint_stall_seconds, 86400);
  EXPECT_NEAR(fast.checkpoint_period_seconds / daly, 1, 0.02);
  const RunWithFailures slow =
      predicted(fails + "checkpoint: {write: staged, bandwidth: 2 MB/s}\n").with_failures.value();
  EXPECT_NEAR(slow.checkpoint_period_seconds / slow.checkpoint_seconds, 1, 0.02);
}

// A write that fills half of the NIC slows steps that need the NIC.
TEST(Recovery, AWriteSlowsTrainingOnTheSameNic) {
  const std::string job = sharded + "fabric: {nics_per_node: 1, nic_rate: 25 Gbit/s}\nfaults: {}\n";
  const auto finish = [&](const std::string& bandwidth) {
    return predicted(job + "checkpoint: {every: 30 min, size: 2 TB, write: staged, bandwidth: " +
                     bandwidth + "}\n")
        .with_failures->finish_seconds;
  };
  EXPECT_GT(finish("1.5 GB/s"), 10 * 86400 * 1.05);
  // The same bytes at a lower rate take less of the NIC for a longer time.
  EXPECT_LT(finish("400 MB/s"), finish("1.5 GB/s") * 1.5);
  const Point point = expand(scenario_of(job)).at(0);
  const StrategyResult all = point.strategy->simulate(point.job);
  Checkpoints slow, fast;
  slow.bytes_per_second = 1e8, fast.bytes_per_second = 1.5e9;
  EXPECT_GT(speed_while_writing(slow, point, all), speed_while_writing(fast, point, all));
  EXPECT_LT(speed_while_writing(slow, point, all), 1);
}

TEST(Recovery, CopiesInMemoryTakeTheTimeThatTheNetworkHas) {
  const std::string peers = sharded + "faults: {}\ncheckpoint: {peers: {copies: 3}}\n";
  const Prediction p = predicted(peers);
  const RunWithFailures& run = p.with_failures.value();
  double busy = 0;
  for (const LinkTraffic& traffic : p.traffic) {
    if (traffic.link_class == "NIC") busy = traffic.busy;
  }
  const FabricSpec& fabric = expand(scenario_of(peers)).at(0).job.machine.fabric;
  const double rate = fabric.nics_per_node * fabric.nic_bytes_per_second * fabric.efficiency;
  EXPECT_NEAR(run.memory_copy_seconds, 2 * run.checkpoint_bytes / 4 / rate / (1 - busy), 1e-9);
  EXPECT_GE(run.memory_period_seconds, run.memory_copy_seconds);
  EXPECT_EQ(run.checkpoints, 0);
}

TEST(Recovery, CheckpointsTakeMemoryOfHosts) {
  const double none = predicted(sharded + "faults: {}\n").memory.host;
  const Prediction staged = predicted(sharded + "faults: {}\ncheckpoint: {write: staged}\n");
  const double share = staged.with_failures->checkpoint_bytes / 4;
  EXPECT_NEAR(staged.memory.host - none, share, 1);
  const std::string both = "faults: {}\ncheckpoint: {write: staged, peers: {copies: 2}";
  EXPECT_NEAR(predicted(sharded + both + "}\n").memory.host - none, 5 * share, 5);
  const Prediction large = predicted(sharded + both + ", size: 100 TB}\n");
  ASSERT_TRUE(large.out_of_memory);
  EXPECT_NEAR(large.out_of_memory->host_shortfall,
              5 * 25e12 - expand(scenario_of(sharded)).at(0).job.machine.host.memory_bytes, 1e6);
}

// The nodes that hold one copy of the state: one node for DDP, a shard group's nodes for FSDP, the
// nodes of all stages for a pipeline.
TEST(Recovery, NodesFailTogetherWhereTheyShareTheState) {
  const auto together = [](const std::string& more) {
    const std::string job = "platform: dgx-h100\ngpus: 64\n" + run_of_days;
    return nodes_that_fail_together(expand(scenario_of(job + more)).at(0));
  };
  EXPECT_EQ(together("strategies: [ddp]\n"), 1);
  EXPECT_EQ(together("strategies: [local_sgd]\n"), 1);
  EXPECT_EQ(together("strategies: [fsdp]\n"), 0);
  EXPECT_EQ(together("strategies: [fsdp: {sharding: hybrid_shard}]\n"), 1);
  EXPECT_EQ(together("strategies: [fsdp: {sharding: hybrid_shard, shard_group: 16}]\n"), 2);
  EXPECT_EQ(together("strategies: [zero: {shard_group: 32}]\n"), 4);
  const std::string mesh =
      "model: gpt\nmodel_parameters: {layers: 8, hidden: 512, heads: 8, sequence: 256, vocabulary: "
      "51200}\nbatch: {global: 64, micro: 4}\nstrategies: [ddp]\nparallel: ";
  EXPECT_EQ(together(mesh + "{tensor: 8, pipeline: 2}\n"), 2);
  EXPECT_EQ(together(mesh + "{tensor: 4, pipeline: 2}\n"), 2);
}

TEST(Recovery, ReplicasLoseNothingAndAreMissedAlone) {
  const std::string job = "model: lenet5\ngpus: 64\nplatform: dgx-h100\n" + run_of_days +
                          "faults: {at: [{time: 1 d, node: 3}], repair: 2 d, ";
  for (const char* strategy :
       {"ddp", "local_sgd: {every: 4}", "fsdp: {sharding: hybrid_shard, shard_group: 16}",
        "zero: {shard_group: 16}"}) {
    const std::string text = job + "recovery: replicas}\nstrategies: [" + strategy + "]\n";
    const RunWithFailures run = predicted(text).with_failures.value();
    EXPECT_EQ(run.lost, 0) << strategy;
    EXPECT_EQ(run.waiting, 0) << strategy;
    EXPECT_NEAR(run.down, 60 + 30, 1e-6) << strategy;
    EXPECT_LT(run.finish_seconds, 10.8 * 86400) << strategy;
  }
}

TEST(Recovery, ASlowNodeSlowsStepsAsItsSimulationSays) {
  const std::string job =
      "model: resnet50\nbatch: {per_gpu: 64}\ngpus: 16\nplatform: dgx-h100\n" + run_of_days;
  const RunWithFailures run =
      predicted(job +
                "faults: {at: [{time: 1 d, slows: 1}], degraded: {factor: 2}}\n"
                "checkpoint: {every: 1 h, size: 0 B}\n")
          .with_failures.value();
  const double usual = predicted(job).step_seconds;
  std::string slow_ranks;
  for (int rank = 0; rank < 8; ++rank)
    slow_ranks += (rank ? ", {rank: " : "{rank: ") + std::to_string(rank) + ", factor: 2}";
  const double slow =
      predicted(job + "stragglers: {slow_ranks: [" + slow_ranks + "]}\n").step_seconds;
  EXPECT_NEAR(run.finish_seconds / 86400, 1 + 9 * slow / usual, 0.01);
}

// Salpekar et al. 2026 report an effective training time of 44 % for synchronous training and 80 %
// with replicas that return alone. The scenarios use the failure rate of fact 148 and name their
// other assumptions.
TEST(Recovery, FtHsdpIsWorthWhatItsAuthorsSay) {
  const auto goodput = [](const std::string& name) {
    const ResultRecord record =
        run_scenario(read_scenario(data_folder("scenarios/literature") + "/" + name + ".yaml"));
    return record.predictions.at(0).with_failures->goodput;
  };
  EXPECT_NEAR(goodput("synchronous_100k"), 0.44, 0.03);
  EXPECT_NEAR(goodput("ft_hsdp"), 0.80, 0.04);
}

}  // namespace
}  // namespace lockstep::recovery_points_test
