// Do the shipped platforms give the graphs that NCCL's search finds on such nodes (facts 98-101)?
#include <gtest/gtest.h>

#include <map>

#include "costs/collective.hpp"
#include "costs/nccl_topology.hpp"

namespace lockstep::collective_topology_test {
namespace {

CommGroup on_one_node(int ranks) {
  return {.ranks_per_node = ranks, .nodes = 1};
}

void expect_graph(const NcclGraph& graph, int channels, double gigabytes_per_second) {
  EXPECT_EQ(graph.channels, channels);
  EXPECT_NEAR(graph.intra / 1e9, gigabytes_per_second, 1e-9);
}

TEST(NcclTopology, EightA100OnNvswitch) {
  const NcclSystem s = nccl_system(load_machine("dgx-a100-80gb"), on_one_node(8));
  expect_graph(s.ring, 12, 20);
  EXPECT_EQ(communicator_channels(s), 24);
  EXPECT_EQ(s.nvls.channels, 0);
  EXPECT_TRUE(s.ll128);
}

TEST(NcclTopology, EightH100OnNvswitch) {
  const NcclSystem s = nccl_system(load_machine("dgx-h100"), on_one_node(8));
  expect_graph(s.ring, 12, 30);
  EXPECT_EQ(communicator_channels(s), 24);
  expect_graph(s.nvls, 8, 40);
}

TEST(NcclTopology, EightB200OnNvswitch) {
  expect_graph(nccl_system(load_machine("dgx-b200"), on_one_node(8)).ring, 16, 45);
}

TEST(NcclTopology, FourA100WiredAllToAllReachWhatASwitchGives) {
  const Machine machine = load_machine("a100-sxm4-80gb-x4");
  expect_graph(nccl_system(machine, on_one_node(4)).ring, 12, 20);
  // Each pair has four links of 20 GB/s; three GPUs form two rings over them.
  expect_graph(nccl_system(machine, on_one_node(2)).ring, 4, 20);
  expect_graph(nccl_system(machine, on_one_node(3)).ring, 8, 20);
}

TEST(NcclTopology, Dgx1UsesAllSixLinksOfAGpu) {
  expect_graph(nccl_system(load_machine("dgx1-v100-32gb"), on_one_node(8)).ring, 6, 20);
}

TEST(NcclTopology, PcieOfGeneration4) {
  Machine machine = load_machine("a100-pcie-80gb-x8");
  expect_graph(nccl_system(machine, on_one_node(4)).ring, 1, 20);
  expect_graph(nccl_system(machine, on_one_node(8)).ring, 1, 15);  // across AMD sockets
  EXPECT_FALSE(nccl_system(machine, on_one_node(4)).ll128);
  EXPECT_EQ(communicator_channels(nccl_system(machine, on_one_node(4))), 2);
}

TEST(NcclTopology, PeerToPeerEndsAtTheSwitch) {
  const Machine switched = load_machine("a100-pcie-80gb-x8");
  EXPECT_EQ(node_links(switched, on_one_node(4)).path, NodePath::pcie_peer);
  EXPECT_EQ(node_links(switched, on_one_node(8)).path, NodePath::host_memory);
  EXPECT_TRUE(node_links(switched, on_one_node(8)).crosses_sockets);
  EXPECT_EQ(node_links(load_machine("rtx3090-x8"), on_one_node(2)).path, NodePath::host_memory);
}

TEST(NcclTopology, AcrossNodesOneChannelPerNic) {
  const CommGroup two_nodes{.ranks_per_node = 8, .nodes = 2};
  expect_graph(nccl_system(load_machine("dgx-a100-80gb"), two_nodes).ring, 8, 24);
  expect_graph(nccl_system(load_machine("p4d.24xlarge"), two_nodes).ring, 4, 12);
  expect_graph(nccl_system(load_machine("dgx-h100"), two_nodes).ring, 8, 45);
}

TEST(NcclTopology, ReplicaGroupsShareTheNics) {
  const Machine machine = load_machine("dgx-a100-80gb-hdr4");
  const CommGroup alone{.ranks_per_node = 1, .nodes = 4};
  CommGroup all = alone;
  all.concurrent = 8;
  EXPECT_EQ(usable_nics(machine, alone), 1);
  EXPECT_EQ(usable_nics(machine, all), 4);
  // Eight groups share four NICs of 24 GB/s: 12 GB/s each.
  expect_graph(nccl_system(machine, all).ring, 1, 12);
}

TEST(NcclTopology, TcpHasNoLl128) {
  const CommGroup two_nodes{.ranks_per_node = 8, .nodes = 2};
  EXPECT_FALSE(nccl_system(load_machine("dgx-a100-80gb-25gbe"), two_nodes).ll128);
  EXPECT_TRUE(nccl_system(load_machine("dgx-a100-80gb"), two_nodes).ll128);
}

TEST(NcclTopology, GroupsFillNodes) {
  const Machine machine = load_machine("dgx-a100-80gb");
  EXPECT_EQ(group_of(machine, 4).nodes, 1);
  EXPECT_EQ(group_of(machine, 4).ranks_per_node, 4);
  EXPECT_EQ(group_of(machine, 64).nodes, 8);
  EXPECT_EQ(group_of(machine, 64).ranks(), 64);
}

// Strategies merge the links of one class into one link, so its capacity must be the same for every
// collective and group.
TEST(CollectiveLinks, CapacityOfAClassIsTheMachines) {
  for (const std::string& name : known_machines()) {
    const Machine machine = load_machine(name);
    std::map<LinkClass, double> capacity;
    for (int local = 1; local <= machine.gpus_per_node; ++local) {
      for (const int nodes : {1, 2, 4}) {
        for (const int concurrent : {1, machine.gpus_per_node / local}) {
          const CommGroup group{
              .ranks_per_node = local, .nodes = nodes, .concurrent = std::max(1, concurrent)};
          if (nodes > machine.max_nodes || group.ranks() == 1) continue;
          for (const Collective kind : {Collective::all_reduce, Collective::all_gather}) {
            for (const LinkLoad& load : collective_cost(machine, group, kind, 1e8).links) {
              const double known = capacity.try_emplace(load.link, load.capacity).first->second;
              EXPECT_EQ(load.capacity, known) << name << " " << local << " x " << nodes;
            }
          }
        }
      }
    }
    if (machine.device.architecture == Architecture::cpu) continue;
    for (const LinkLoad& load : host_device_copy(machine, 1e6).links) {
      const auto known = capacity.find(load.link);
      if (known != capacity.end()) {
        EXPECT_EQ(load.capacity, known->second) << name;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::collective_topology_test
