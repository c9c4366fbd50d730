// Are collective costs sane on every shipped platform? One rank costs nothing, more bytes never
// take less time, more bandwidth never takes more time, traffic adds up, and known clusters reach
// about their known bandwidths.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "costs/collective.hpp"
#include "costs/collective_curve.hpp"

namespace lockstep::collective_cost_test {
namespace {

constexpr double MiB = 1024 * 1024, GiB = 1024 * MiB;
const std::vector<Collective> everything{Collective::all_reduce,     Collective::all_gather,
                                         Collective::reduce_scatter, Collective::broadcast,
                                         Collective::reduce,         Collective::all_to_all,
                                         Collective::send_recv};

const std::vector<Machine>& machines() {
  static const std::vector<Machine> all = [] {
    std::vector<Machine> list;
    for (const std::string& name : known_machines()) list.push_back(load_machine(name));
    return list;
  }();
  return all;
}

// A machine and a group of at least two ranks on it.
struct Setting {
  Machine machine;
  CommGroup group;
};
Setting any_setting() {
  static const std::vector<Machine> several = [] {
    std::vector<Machine> list;
    for (const Machine& m : machines())
      if (max_gpus(m) > 1) list.push_back(m);
    return list;
  }();
  // All sizes of rapidcheck draw from the full range, because larger values are not harder cases.
  const auto between = [](int low, int high) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
  };
  const Machine& machine =
      several[static_cast<std::size_t>(between(0, static_cast<int>(several.size()) - 1))];
  int per_node = between(1, machine.gpus_per_node);
  const int nodes = between(1, std::min(machine.max_nodes, 33));
  if (per_node * nodes == 1) per_node = std::min(2, machine.gpus_per_node);
  const CommGroup group{.ranks_per_node = per_node,
                        .nodes = per_node * nodes == 1 ? 2 : nodes,
                        .concurrent = between(1, machine.gpus_per_node / per_node)};
  return {machine, group};
}
double any_size() {
  return std::exp2(*rc::gen::inRange(0, 3400) / 100.0);
}
Collective any_collective() {
  return *rc::gen::elementOf(everything);
}

TEST(CollectiveCost, OneRankCostsNothing) {
  for (const Machine& machine : machines())
    for (const Collective c : everything) {
      const CollectiveCost cost = collective_cost(machine, {}, c, GiB);
      EXPECT_EQ(cost.seconds(), 0);
      EXPECT_TRUE(cost.links.empty());
      EXPECT_EQ(cost.algorithm, "");
    }
}

RC_GTEST_PROP(CollectiveCost, MoreBytesNeverTakeLessTime, ()) {
  const Setting s = any_setting();
  const Collective c = any_collective();
  const double few = any_size();
  const double many = few * std::exp2(*rc::gen::inRange(0, 400) / 100.0);
  const double time_few = collective_cost(s.machine, s.group, c, few).seconds();
  const double time_many = collective_cost(s.machine, s.group, c, many).seconds();
  RC_ASSERT(time_few <= time_many * (1 + 1e-9));
}

// The size of the whole collective if every rank contributes `bytes`.
double of_all(Collective collective, const CommGroup& group, double bytes) {
  const bool shards = collective == Collective::all_gather ||
                      collective == Collective::reduce_scatter ||
                      collective == Collective::all_to_all;
  return shards ? bytes * group.ranks() : bytes;
}

RC_GTEST_PROP(CollectiveCost, MoreNodesNeverTakeLessTime, ()) {
  const Setting s = any_setting();
  const Collective c = any_collective();
  const double each = any_size();
  CommGroup fewer = s.group;
  fewer.nodes = *rc::gen::inRange(1, s.group.nodes + 1);
  if (fewer.ranks() == 1) fewer.nodes = s.group.nodes;
  const double before = collective_cost(s.machine, fewer, c, of_all(c, fewer, each)).seconds();
  RC_ASSERT(collective_cost(s.machine, s.group, c, of_all(c, s.group, each)).seconds() >=
            before * (1 - 1e-9));
}

// On the same links, more GPUs of a node never take less time. Machines with point-to-point NVLinks
// or bridges are left out, because more GPUs open more links there. NVLink SHARP is left out,
// because its overhead, one more transfer of a rank's own part, shrinks as parts get smaller.
TEST(CollectiveCost, MoreGpusOfANodeNeverTakeLessTimeOnTheSameLinks) {
  int machines_checked = 0;
  for (const Machine& machine : machines()) {
    const bool own_links =
        machine.intra == IntraLink::nvlink && machine.nvlink.layout != NvlinkLayout::switched;
    if (own_links || machine.gpus_per_node < 2) continue;
    ++machines_checked;
    for (const Collective c : everything) {
      // a rack's gathers go through the switches as well
      const bool rack = machine.gpus_per_node > 16;
      if (machine.nvlink.multicast && (rack || c == Collective::all_reduce)) continue;
      for (double each = 1; each <= 16 * GiB; each *= 2) {
        double before = 0;
        for (int ranks = 2; ranks <= machine.gpus_per_node; ++ranks) {
          const CommGroup group{.ranks_per_node = ranks, .nodes = 1};
          const double seconds =
              collective_cost(machine, group, c, of_all(c, group, each)).seconds();
          EXPECT_GE(seconds, before * (1 - 1e-9)) << machine.name << " " << ranks << " " << each;
          before = seconds;
        }
      }
    }
  }
  EXPECT_GE(machines_checked, 15);
}

// Both groups fill whole nodes, so that the collective of two nodes adds only the network.
TEST(CollectiveCost, OneMegabyteDoesNotGetFasterFromEightToSixteenGpus) {
  for (const char* name : {"dgx-a100-80gb", "dgx-h100", "dgx1-v100-32gb", "p5.48xlarge"}) {
    const Machine machine = load_machine(name);
    const double one =
        collective_cost(machine, group_of(machine, 8), Collective::all_reduce, MiB).seconds();
    EXPECT_GE(
        collective_cost(machine, group_of(machine, 16), Collective::all_reduce, MiB).seconds(), one)
        << name;
  }
}

RC_GTEST_PROP(CollectiveCost, FasterNicsAreNeverSlower, ()) {
  Setting s = any_setting();
  const Collective c = any_collective();
  const double bytes = any_size();
  const double before = collective_cost(s.machine, s.group, c, bytes).seconds();
  s.machine.fabric.nic_bytes_per_second *= 1 + *rc::gen::inRange(0, 300) / 100.0;
  RC_ASSERT(collective_cost(s.machine, s.group, c, bytes).seconds() <= before * (1 + 1e-9));
}

RC_GTEST_PROP(CollectiveCost, FasterPcieIsNeverSlower, ()) {
  Setting s = any_setting();
  const Collective c = any_collective();
  const double bytes = any_size();
  const double before = collective_cost(s.machine, s.group, c, bytes).seconds();
  s.machine.pcie.lanes *= 2;
  RC_ASSERT(collective_cost(s.machine, s.group, c, bytes).seconds() <= before * (1 + 1e-9));
}

RC_GTEST_PROP(CollectiveCost, LinksCanCarryTheLoneCollective, ()) {
  const Setting s = any_setting();
  const CollectiveCost cost = collective_cost(s.machine, s.group, any_collective(), any_size());
  RC_ASSERT(cost.latency_seconds >= 0);
  RC_ASSERT(cost.transfer_seconds > 0);
  for (const LinkLoad& load : cost.links) {
    RC_ASSERT(load.links >= 1);
    RC_ASSERT(load.capacity > 0);
    RC_ASSERT(std::abs(load.total_bytes - load.bytes * load.links) <= 1e-9 * load.total_bytes);
    RC_ASSERT(load.bytes / load.capacity <= cost.transfer_seconds * (1 + 1e-9));
  }
}

TEST(CollectiveCost, RingTrafficIsTheTextbooks) {
  const Machine machine = load_machine("dgx-a100-80gb");
  const CommGroup group{.ranks_per_node = 8, .nodes = 1};
  const auto load = [&](Collective c) {
    return collective_cost(machine, group, c, GiB).links.front().bytes;
  };
  EXPECT_DOUBLE_EQ(load(Collective::all_reduce), 2 * 7 / 8.0 * GiB);
  EXPECT_DOUBLE_EQ(load(Collective::all_gather), 7 / 8.0 * GiB);
  EXPECT_DOUBLE_EQ(load(Collective::reduce_scatter), 7 / 8.0 * GiB);
  EXPECT_DOUBLE_EQ(load(Collective::all_to_all), 7 / 8.0 * GiB);
  EXPECT_DOUBLE_EQ(load(Collective::broadcast), GiB);
}

// In a ring over 12 GPUs of two nodes of 8, the 4 GPUs that the second node lacks carry no traffic.
// An all-gather of B bytes sends (n - 1) / n * B from each of n GPUs.
TEST(CollectiveCost, GpusThatANodeLacksSendNothing) {
  const Machine machine = load_machine("dgx-a100-80gb");
  for (const int gpus : {9, 12, 15, 16}) {
    const CommGroup group = group_of(machine, gpus);
    ASSERT_EQ(group.ranks(), gpus);
    const CollectiveCost cost = collective_cost(machine, group, Collective::all_gather, GiB);
    const LinkLoad& nvlink = cost.links.front();
    ASSERT_EQ(nvlink.link, LinkClass::nvlink);
    EXPECT_NEAR(nvlink.total_bytes, (gpus - 1) * GiB, 1e-9 * GiB) << gpus;
    EXPECT_NEAR(nvlink.bytes, (gpus - 1.0) / gpus * GiB, 1e-9 * GiB) << gpus;
  }
  // On this platform traffic passes the host's memory, where it is written and read; six of eight
  // GPUs take part.
  const Machine host = load_machine("g5.12xlarge");
  const CollectiveCost cost = collective_cost(host, group_of(host, 6), Collective::all_gather, GiB);
  for (const LinkLoad& load : cost.links) {
    const double each = load.link == LinkClass::host_memory ? 2 : 1;
    if (load.link == LinkClass::nic) continue;
    EXPECT_NEAR(load.total_bytes, each * 5 * GiB, 1e-9 * GiB);
  }
}

TEST(CollectiveCost, ReplicaGroupsTogetherFillTheNics) {
  const Machine machine = load_machine("dgx-a100-80gb");  // one NIC per GPU
  const CommGroup one{.ranks_per_node = 1, .nodes = 4};
  CommGroup eight = one;
  eight.concurrent = 8;
  const double alone = collective_cost(machine, one, Collective::all_reduce, GiB).seconds();
  EXPECT_DOUBLE_EQ(collective_cost(machine, eight, Collective::all_reduce, GiB).seconds(), alone);
  // Eight GPUs share four NICs, so the transfer takes twice as long.
  const Machine shared = load_machine("dgx-a100-80gb-hdr4");
  const CollectiveCost crowded = collective_cost(shared, eight, Collective::all_reduce, GiB);
  EXPECT_NEAR(crowded.transfer_seconds /
                  collective_cost(shared, one, Collective::all_reduce, GiB).transfer_seconds,
              2, 1e-9);
  // Each of 8 groups of 4 ranks sends 2 (4-1)/4 GiB out of each node.
  double nic_bytes = 0;
  for (const LinkLoad& load : crowded.links)
    if (load.link == LinkClass::nic) nic_bytes = load.total_bytes;
  EXPECT_NEAR(nic_bytes, 4 * 8 * 1.5 * GiB, 1);
}

struct Anchor {
  const char* platform;
  int nodes;
  double low, high;  // GB/s of bus bandwidth
};

TEST(CollectiveCost, KnownClustersReachTheirKnownBandwidth) {
  // All-reduce of 4 GiB over whole nodes.
  const std::vector<Anchor> anchors{
      {"dgx-a100-80gb", 2, 178, 192},    {"p4d.24xlarge", 2, 70, 80},
      {"dgx-a100-80gb-hdr4", 3, 88, 97}, {"dgx-a100-80gb", 1, 225, 240},
      {"dgx-h100", 1, 450, 485},         {"dgx-h100", 4, 340, 390}};
  for (const Anchor& anchor : anchors) {
    const CommGroup group{.ranks_per_node = 8, .nodes = anchor.nodes};
    const double seconds =
        collective_cost(load_machine(anchor.platform), group, Collective::all_reduce, 4 * GiB)
            .seconds();
    const double bus = bus_bandwidth(Collective::all_reduce, group.ranks(), 4 * GiB, seconds) / 1e9;
    EXPECT_GE(bus, anchor.low) << anchor.platform;
    EXPECT_LE(bus, anchor.high) << anchor.platform;
  }
}

TEST(CollectiveCost, OversubscribedTreesSlowWhatCrossesThem) {
  const Machine flat = load_machine("dgx-a100-80gb");
  Machine tree = flat;
  tree.fabric.oversubscription = 4;
  tree.fabric.nodes_per_leaf = 1;
  const CommGroup group{.ranks_per_node = 8, .nodes = 16};
  const auto slowdown = [&](Collective c) {
    return collective_cost(tree, group, c, 4 * GiB).transfer_seconds /
           collective_cost(flat, group, c, 4 * GiB).transfer_seconds;
  };
  EXPECT_NEAR(slowdown(Collective::all_gather), 4, 1e-6);
  EXPECT_NEAR(slowdown(Collective::all_to_all), 4, 1e-6);
  // With all eight nodes under one leaf, the ring's single crossing finds enough uplinks.
  tree.fabric.nodes_per_leaf = 8;
  EXPECT_NEAR(slowdown(Collective::all_gather), 1, 1e-9);
  EXPECT_NEAR(slowdown(Collective::all_to_all), 4 * 8 / 15.0, 1e-6);
  tree.fabric.nodes_per_leaf = 16;
  EXPECT_NEAR(slowdown(Collective::all_to_all), 1, 1e-9);
}

// A ring sends 2 (n - 1) / n of the bytes; a node whose switch adds up the gradients sends them
// once, for any number of nodes. The gain is therefore below a factor of two (SwitchML; fact H130).
TEST(CollectiveCost, SumsInTheNetworkHalveTheRingsBytes) {
  Machine ring = load_machine("v100-sxm2-16gb-x1-tcp");
  ring.fabric.kind = FabricKind::roce;  // RoCE has no limit for a single TCP connection
  ring.fabric.nic_bytes_per_second = 1.25e9;
  ring.max_nodes = 1024;
  Machine sums = ring;
  sums.fabric.in_network_sums = true;
  const double rate = 1.25e9 * ring.fabric.efficiency;
  for (const int nodes : {2, 4, 8, 64, 512}) {
    const CommGroup group{.ranks_per_node = 1, .nodes = nodes};
    const CollectiveCost summed = collective_cost(sums, group, Collective::all_reduce, 4 * GiB);
    EXPECT_NEAR(summed.transfer_seconds, 4 * GiB / rate, 1e-9 * 4 * GiB / rate) << nodes;
    EXPECT_EQ(summed.algorithm, "in_network") << nodes;
    const double gain =
        collective_cost(ring, group, Collective::all_reduce, 4 * GiB).transfer_seconds /
        summed.transfer_seconds;
    EXPECT_GE(gain, 1);
    EXPECT_LE(gain, 2.0 * (nodes - 1) / nodes * (1 + 1e-9)) << nodes;
    // Other collectives cost the same as without in-network sums.
    EXPECT_EQ(collective_cost(sums, group, Collective::all_gather, GiB).seconds(),
              collective_cost(ring, group, Collective::all_gather, GiB).seconds());
  }
}

// A ring over two halves of 8 nodes crosses the trunk once in each direction. In an all-to-all
// every node sends 8/15 of its data to the other half.
TEST(CollectiveCost, TrunksSlowWhatCrossesThem) {
  const Machine flat = load_machine("dgx-a100-80gb");
  Machine joined = flat;
  const CommGroup group{.ranks_per_node = 8, .nodes = 16};
  const double node = flat.fabric.nic_bytes_per_second * flat.fabric.nics_per_node;
  Trunk trunk{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}, node / 4};
  joined.fabric.trunks = {trunk};
  const auto slowdown = [&](Collective c) {
    return collective_cost(joined, group, c, 4 * GiB).transfer_seconds /
           collective_cost(flat, group, c, 4 * GiB).transfer_seconds;
  };
  EXPECT_NEAR(slowdown(Collective::all_gather), 4, 1e-6);
  EXPECT_NEAR(slowdown(Collective::all_to_all), 4 * 8 * 8 / 15.0, 1e-6);
  // If neighboring nodes lie on different sides, the ring crosses eight times.
  joined.fabric.trunks = {{{0, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 15}, node}};
  EXPECT_NEAR(slowdown(Collective::all_gather), 8, 1e-6);
  // With two trunks the slower one sets the rate; the link loads carry both.
  joined.fabric.trunks = {trunk, {{0}, {1}, node / 8}};
  EXPECT_NEAR(slowdown(Collective::all_gather), 8, 1e-6);
  const CollectiveCost cost = collective_cost(joined, group, Collective::all_gather, 4 * GiB);
  const LinkLoad& load = cost.links.back();
  EXPECT_EQ(load.link, LinkClass::trunk);
  EXPECT_EQ(load.links, 2);
  EXPECT_NEAR(load.bytes / load.capacity / cost.transfer_seconds, 1, 0.1);
  // Trunks between nodes outside of the group have no effect.
  const CommGroup few{.ranks_per_node = 8, .nodes = 2};
  joined.fabric.trunks = {trunk};
  EXPECT_EQ(collective_cost(joined, few, Collective::all_gather, 4 * GiB).transfer_seconds,
            collective_cost(flat, few, Collective::all_gather, 4 * GiB).transfer_seconds);
}

// Base and one hop of a Simple ring (facts 90, 91).
TEST(CollectiveCost, AMessageWithinANodeTakesOneHopOfItsLink) {
  const auto latency = [](const char* machine) {
    return collective_cost(load_machine(machine), {.ranks_per_node = 2}, Collective::send_recv, MiB)
        .latency_seconds;
  };
  const double call = NetworkModel{}.call_seconds;
  EXPECT_NEAR(latency("p4d.24xlarge"), 8.4e-6 + 3.4e-6 + call, 1e-12);  // NVLink
  EXPECT_NEAR(latency("g5.12xlarge"), 8.4e-6 + 5.7e-6 + call, 1e-12);   // PCIe
}

// Large all-gathers use rings of the Simple protocol. Between nodes a hop of NCCL's table is 14 us
// plus twice the 75 us of AWS's plugin (fact 96); on EFA it costs shared_hop_factor times that.
TEST(CollectiveCost, EveryFurtherNodeOfARingAddsOneNetworkHop) {
  Machine machine = load_machine("p5.48xlarge");
  const NetworkModel model;
  const auto latency = [&](int nodes) {
    const CommGroup group{.ranks_per_node = 8, .nodes = nodes};
    return collective_cost(machine, group, Collective::all_gather, 64 * GiB).latency_seconds;
  };
  const double inside = 7 * 6e-6;  // 2 us of posting to an AMD host's NIC, three times for Simple
  EXPECT_NEAR((latency(12) - latency(4)) / 8,
              inside + model.shared_hop_factor * (14e-6 + 2 * 75e-6), 1e-12);
  machine.fabric.kind = FabricKind::infiniband;
  EXPECT_NEAR((latency(12) - latency(4)) / 8, inside + 14e-6, 1e-12);
}

// The time is the table's latency, the call, 128 chunks that fill two pipeline stages, and the
// bytes at the full rate. A chunk is 16 KiB below 8 MiB (twice 128 x 32 KiB), 32 KiB below 64 MiB,
// 64 KiB below 1 GiB, and 128 KiB from 1 GiB on.
TEST(CollectiveCost, NvlinkSharpFillsItsPipelineFirst) {
  const Machine machine = load_machine("dgx-h100");
  const CommGroup node{.ranks_per_node = 8, .nodes = 1};
  const auto seconds = [&](double bytes) {
    const CollectiveCost cost = collective_cost(machine, node, Collective::all_reduce, bytes);
    EXPECT_EQ(cost.algorithm, "nvls");
    return cost.seconds();
  };
  const double rate = 8 * GiB / (seconds(16 * GiB) - seconds(8 * GiB));
  const double call = 25e-6 + NetworkModel{}.call_seconds;
  for (const auto& [bytes, chunk] : {std::pair{6 * MiB, 16},
                                     {16 * MiB, 32},
                                     {64 * MiB, 64},
                                     {256 * MiB, 64},
                                     {GiB, 128},
                                     {16 * GiB, 128}}) {
    const double fill = 2 * 128 * chunk * 1024.0;
    EXPECT_NEAR(seconds(bytes), call + (fill + bytes) / rate, 1e-9) << bytes;
  }
}

// In a ring the data cross between the two nodes twice, in a tree once in each direction.
TEST(CollectiveCost, TwoNodesSumInATreeAtTheRateOfTheirNics) {
  const Machine machine = load_machine("p4d.24xlarge");
  const CommGroup two{.ranks_per_node = 8, .nodes = 2};
  const CollectiveCost cost = collective_cost(machine, two, Collective::all_reduce, 4 * GiB);
  EXPECT_EQ(cost.algorithm, "tree");
  const double bus = bus_bandwidth(Collective::all_reduce, 16, 4 * GiB, cost.seconds());
  EXPECT_GT(bus, 1.5 * 4 * 12.5e9 * 0.92);
}

TEST(CollectiveCost, TreesOnASharedFabricLoseTimeWithEveryNode) {
  Machine machine = load_machine("p5.48xlarge");
  NetworkModel alone;
  alone.shared_tree_seconds_per_byte = 0;
  const auto lost = [&](int nodes) {
    const CommGroup group{.ranks_per_node = 8, .nodes = nodes};
    const auto cost = [&](const NetworkModel& model) {
      return collective_cost(machine, group, Collective::all_reduce, 256 * MiB, model);
    };
    EXPECT_EQ(cost({}).algorithm, "nvls_tree");
    return cost({}).transfer_seconds - cost(alone).transfer_seconds;
  };
  const double a_node = 256 * MiB * NetworkModel{}.shared_tree_seconds_per_byte;
  EXPECT_NEAR(lost(2), a_node, 1e-12);
  EXPECT_NEAR(lost(8), 7 * a_node, 1e-12);
  machine.fabric.kind = FabricKind::infiniband;
  EXPECT_DOUBLE_EQ(lost(2), 0);
}

TEST(CollectiveCost, HostMemoryPathIsFarBelowPeerToPeer) {
  Machine machine = load_machine("a100-pcie-80gb-x8");
  const CommGroup four{.ranks_per_node = 4, .nodes = 1};
  const double direct = collective_cost(machine, four, Collective::all_reduce, GiB).seconds();
  machine.pcie.peer_to_peer = false;
  const double staged = collective_cost(machine, four, Collective::all_reduce, GiB).seconds();
  EXPECT_GT(staged, 1.5 * direct);
}

TEST(CollectiveCost, GlooOnLoopbackFollowsAlphaBeta) {
  const Machine machine = load_machine("cpu-loopback-x2");
  const CommGroup pair{.ranks_per_node = 2, .nodes = 1};
  const CollectiveCost cost = collective_cost(machine, pair, Collective::all_reduce, 60e6);
  EXPECT_EQ(cost.algorithm, "gloo");
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 2 * 90e-6);
  EXPECT_DOUBLE_EQ(cost.transfer_seconds, 60e6 / 1.5e9);
}

TEST(CollectiveCost, GlooOnASlowLinkTakesTheWireTime) {
  // 59 MB on 1 Gbit/s took 493 ms (measured).
  const Machine machine = load_machine("cpu-1gbit-x2");
  const CommGroup pair{.ranks_per_node = 1, .nodes = 2};
  EXPECT_NEAR(collective_cost(machine, pair, Collective::all_reduce, 59e6).seconds(), 0.493, 0.005);
}

TEST(CollectiveCost, AMeasuredCurveReplacesTheModel) {
  Machine machine = load_machine("dgx-a100-80gb");
  machine.collectives.push_back({.collective = "all_reduce",
                                 .ranks = 8,
                                 .nodes = 1,
                                 .bytes = {1 * MiB, 4 * MiB, 16 * MiB},
                                 .seconds = {100e-6, 90e-6, 400e-6},
                                 .source = "test"});
  const CommGroup group{.ranks_per_node = 8, .nodes = 1};
  const auto cost = [&](double bytes) {
    return collective_cost(machine, group, Collective::all_reduce, bytes);
  };
  EXPECT_EQ(cost(16 * MiB).provenance, Provenance::measured);
  EXPECT_DOUBLE_EQ(cost(16 * MiB).seconds(), 400e-6);
  EXPECT_EQ(cost(8 * MiB).provenance, Provenance::interpolated);
  EXPECT_NEAR(cost(8 * MiB).seconds(), std::sqrt(90e-6 * 400e-6), 1e-12);
  // a curve must not fall: 4 MiB took less by noise
  EXPECT_DOUBLE_EQ(cost(1 * MiB).seconds(), 90e-6);
  EXPECT_NEAR(cost(32 * MiB).seconds(), 800e-6, 1e-12);
  EXPECT_NEAR(cost(1).seconds(), 90e-6, 1e-12);
  // A group of another shape has no curve.
  const CommGroup four{.ranks_per_node = 4, .nodes = 1};
  EXPECT_EQ(collective_cost(machine, four, Collective::all_reduce, MiB).provenance,
            Provenance::modelled);
}

TEST(CollectiveCost, CpuTimeComesFromTheCurveOrFromTheHost) {
  Machine machine = load_machine("cpu-loopback-x2");
  const CommGroup pair{.ranks_per_node = 2, .nodes = 1};
  // In the model both ranks send the buffer once: 60 MB take 40 ms, and two messages 90 us each.
  const CollectiveCost modelled = collective_cost(machine, pair, Collective::all_reduce, 60e6);
  EXPECT_NEAR(modelled.cores, 60e6 / machine.host.core_network_rate / (0.040 + 180e-6), 1e-12);
  machine.collectives.push_back({.collective = "all_reduce",
                                 .ranks = 2,
                                 .nodes = 1,
                                 .bytes = {1 * MiB, 4 * MiB},
                                 .seconds = {1e-3, 5e-3},
                                 .host_seconds = {0.4e-3, 4e-3},
                                 .source = "test"});
  const auto cores = [&](double bytes) {
    return collective_cost(machine, pair, Collective::all_reduce, bytes).cores;
  };
  EXPECT_DOUBLE_EQ(cores(1024), 0.4);
  EXPECT_DOUBLE_EQ(cores(1 * MiB), 0.4);
  EXPECT_NEAR(cores(2 * MiB), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(cores(4 * MiB), 0.8);
  EXPECT_DOUBLE_EQ(cores(64 * MiB), 0.8);
  // GPUs need no processor time for their copies.
  Machine dgx = load_machine("dgx-a100-80gb");
  dgx.host.core_network_rate = 1e9;
  dgx.collectives = machine.collectives;
  const CommGroup two{.ranks_per_node = 2, .nodes = 1};
  EXPECT_EQ(collective_cost(dgx, two, Collective::all_reduce, 4 * MiB).cores, 0);
}

TEST(CollectiveCost, SpeedsBesideComputeComeFromThePointsThatHaveThem) {
  Machine machine = load_machine("cpu-loopback-x2");
  const CommGroup pair{.ranks_per_node = 2, .nodes = 1};
  EXPECT_EQ(collective_cost(machine, pair, Collective::all_reduce, 4 * MiB).compute_speed, 0);
  machine.collectives.push_back({.collective = "all_reduce",
                                 .ranks = 2,
                                 .nodes = 1,
                                 .bytes = {1024, 1 * MiB, 4 * MiB},
                                 .seconds = {1e-4, 1e-3, 5e-3},
                                 .compute_speed = {0, 0.8, 0.4},
                                 .speed_beside_compute = {0, 0.6, 0.5},
                                 .source = "test"});
  const auto cost = [&](double bytes) {
    return collective_cost(machine, pair, Collective::all_reduce, bytes);
  };
  // the point has no measured speed, so the next one's holds
  EXPECT_DOUBLE_EQ(cost(1024).compute_speed, 0.8);
  EXPECT_DOUBLE_EQ(cost(1024).speed_beside_compute, 0.6);
  EXPECT_NEAR(cost(2 * MiB).compute_speed, 0.6, 1e-12);
  EXPECT_NEAR(cost(2 * MiB).speed_beside_compute, 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(cost(64 * MiB).compute_speed, 0.4);
}

TEST(Copies, MessagesBetweenCpuProcessesFollowTheirCurve) {
  Machine machine = load_machine("cpu-1gbit-x2");
  EXPECT_NEAR(host_host_copy(machine, 1e6).seconds(1e6), 30e-6 + 1e6 / (0.957 * 125e6), 1e-12);
  machine.collectives.push_back({.collective = "send_recv",
                                 .ranks = 2,
                                 .nodes = 2,
                                 .bytes = {1e3, 1e6, 10e6},
                                 .seconds = {20e-6, 4e-3, 100e-3},
                                 .host_seconds = {10e-6, 1e-3, 10e-3},
                                 .sender_seconds = {0, 1e-3, 80e-3},
                                 .source = "test"});
  for (const double bytes : {1e3, 1e6, 10e6}) {
    const CopyCost copy = host_host_copy(machine, bytes);
    EXPECT_NEAR(copy.seconds(bytes), curve_seconds(machine.collectives[0], bytes).seconds, 1e-15);
    EXPECT_EQ(copy.provenance, Provenance::measured);
  }
  EXPECT_DOUBLE_EQ(host_host_copy(machine, 1e6).cores, 0.25);
  // The buffered bytes of a size are its measured ones, between two sizes the interpolated ones,
  // and beyond the last size the last ones; they never exceed the message.
  EXPECT_NEAR(host_host_copy(machine, 10e6).buffered_bytes, 2e6, 1e-6);
  EXPECT_NEAR(host_host_copy(machine, 1e6).buffered_bytes, 0.75e6, 1e-6);
  EXPECT_NEAR(host_host_copy(machine, std::sqrt(10e6 * 1e6)).buffered_bytes, 1.375e6, 1e-6);
  EXPECT_NEAR(host_host_copy(machine, 1e9).buffered_bytes, 2e6, 1e-6);
  EXPECT_NEAR(host_host_copy(machine, 0.8e6).buffered_bytes, 0.75e6, 1e-6);
  EXPECT_DOUBLE_EQ(host_host_copy(machine, 0.5e6).buffered_bytes, 0.5e6);
  // the measurement is of two nodes
  EXPECT_EQ(loopback_copy(machine, 1e6).provenance, Provenance::modelled);
  // A measurement of zero buffered bytes counts. A point without a measurement takes the value of
  // its neighbors.
  std::vector<double>& sender = machine.collectives[0].sender_seconds;
  sender = {0, 4e-3, 80e-3};
  EXPECT_EQ(host_host_copy(machine, 1e6).buffered_bytes, 0);
  sender = {5e-6, 0, 99e-3};
  EXPECT_NEAR(host_host_copy(machine, 1e6).buffered_bytes, std::lerp(750, 1e5, 0.75), 1e-6);
  sender.clear();
  EXPECT_EQ(host_host_copy(machine, 1e6).buffered_bytes, 0);
}

TEST(Copies, OnOneCoreTakeWhatWasMeasuredThere) {
  Machine machine = load_machine("cpu-loopback-x2");
  EXPECT_DOUBLE_EQ(loopback_copy(machine, 1e6).one_core_slowdown, 1);
  machine.collectives.insert(machine.collectives.begin(), {.collective = "send_recv",
                                                           .ranks = 2,
                                                           .nodes = 1,
                                                           .bytes = {1e3, 1e6, 16e6},
                                                           .seconds = {20e-6, 4e-3, 100e-3},
                                                           .one_core_seconds = {0, 3e-3, 150e-3},
                                                           .source = "test"});
  EXPECT_DOUBLE_EQ(loopback_copy(machine, 1e3).one_core_slowdown, 1);
  EXPECT_DOUBLE_EQ(loopback_copy(machine, 1e6).one_core_slowdown, 1);  // never faster
  EXPECT_NEAR(loopback_copy(machine, 4e6).one_core_slowdown, (0.75 + 1.5) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(loopback_copy(machine, 16e6).one_core_slowdown, 1.5);
}

TEST(CollectiveCost, BusBandwidthAsNcclTestsDefinesIt) {
  EXPECT_DOUBLE_EQ(bus_bandwidth(Collective::all_reduce, 8, 8e9, 1), 14e9);
  EXPECT_DOUBLE_EQ(bus_bandwidth(Collective::all_gather, 8, 8e9, 1), 7e9);
  EXPECT_DOUBLE_EQ(bus_bandwidth(Collective::broadcast, 8, 8e9, 1), 8e9);
}

TEST(Copies, GoAtTheSpeedOfTheirLink) {
  const Machine dgx = load_machine("dgx-a100-80gb");
  EXPECT_DOUBLE_EQ(host_device_copy(dgx, GiB).bytes_per_second, 24e9);
  EXPECT_GT(device_device_copy(dgx, GiB).bytes_per_second, 200e9);
  EXPECT_NEAR(host_host_copy(dgx, GiB).bytes_per_second, 0.94 * 25e9, 1);
  // A single TCP stream stops at 25 Gbit/s (fact 79).
  EXPECT_DOUBLE_EQ(host_host_copy(load_machine("dgx-a100-80gb-100gbe"), GiB).bytes_per_second,
                   25e9 / 8);
  // A pair of GPUs in a fully connected node uses a third of a GPU's links.
  const double pair = device_device_copy(load_machine("a100-sxm4-80gb-x4"), GiB).bytes_per_second;
  EXPECT_GT(pair, 70e9);
  EXPECT_LT(pair, 80e9);
}

}  // namespace
}  // namespace lockstep::collective_cost_test
