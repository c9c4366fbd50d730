// Derives the graphs that NCCL's search would find (facts 98-101; graph/search.cc, graph/topo.h):
// the fastest candidate speed that the limiting link allows, and as many channels as fit. Each kind
// of node (switched NVLink, mesh, cube mesh, bridges, PCIe) has its own limit.
#include "costs/nccl_topology.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <initializer_list>

namespace lockstep {
namespace {

// Bytes/s of one NVLink, one way, as NCCL counts it (fact 99).
double nvlink_speed(int compute_capability) {
  if (compute_capability >= 100) return 40.1 * giga;
  if (compute_capability >= 90) return 20.6 * giga;
  if (compute_capability == 86) return 12 * giga;
  return 20 * giga;
}
// Bytes/s between the sockets of a host as NCCL counts it (fact 99). An Intel host with PCIe 5
// counts as Sapphire Rapids or later.
double socket_speed(const Machine& machine) {
  switch (machine.host.vendor) {
    case CpuVendor::amd:
      return 16 * giga;
    case CpuVendor::arm:
      return 6 * giga;
    case CpuVendor::intel:
      break;
  }
  return (machine.pcie.generation >= 5 ? 22 : 10) * giga;
}

// Speeds that the search tries for a channel, in GB/s, best first (fact 100).
std::vector<double> intra_candidates(int compute_capability) {
  if (compute_capability >= 100) return {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
  if (compute_capability >= 90) return {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  return {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
}
std::vector<double> inter_candidates(int compute_capability) {
  if (compute_capability >= 100) return {96, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3};
  if (compute_capability >= 90) return {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3};
  return {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
}
// The best candidate (bytes/s) that does not exceed `limit`; `limit` itself if all candidates do.
double best_candidate(const std::vector<double>& candidates, double limit) {
  for (const double c : candidates)
    if (c * giga <= limit * (1 + 1e-9)) return c * giga;
  return limit;
}

// Bytes/s that rings over `ranks` GPUs can use: `total` on all NVLinks of a GPU together, and
// `bundle` on the links between two neighbours, which limits a channel.
struct NvlinkRoom {
  double total, bundle;
};
NvlinkRoom nvlink_room(const Machine& machine, int ranks) {
  const double link = nvlink_speed(machine.device.compute_capability);
  const double all = link * machine.nvlink.links_per_gpu;
  switch (machine.nvlink.layout) {
    case NvlinkLayout::switched:
    case NvlinkLayout::bridge:
      return {all, all};
    case NvlinkLayout::mesh: {
      const double bundle = all / std::max(1, machine.gpus_per_node - 1);
      return {bundle * (ranks - 1), bundle};
    }
    case NvlinkLayout::cube_mesh:
      break;
  }
  // DGX-1: neighbours share one or two links. Rings over eight GPUs use all six links of a GPU,
  // rings over a quad use four, a pair uses one, and other counts use two (one ring in both
  // directions).
  const int usable = ranks == 8 ? 6 : ranks == 4 ? 4 : ranks == 2 ? 1 : 2;
  return {link * std::min(usable, machine.nvlink.links_per_gpu), link};
}

bool pair_is_bridged(const Machine& machine, const CommGroup& group) {
  return group.ranks_per_node == 2 && group.first_local % 2 == 0 &&
         machine.nvlink.layout == NvlinkLayout::bridge;
}

// Seconds that a network plugin reports to NCCL and that the table adds to a hop. The table's own
// latencies hold for InfiniBand and RoCE, and NCCL's socket transport reports no latency. AWS's
// plugin reports 75 us for EFA (aws-ofi-nccl, platform data of p4d and p5).
double nic_latency(const FabricSpec& fabric) {
  return fabric.kind == FabricKind::efa ? 75e-6 : 0;
}

int gpus_per_socket(const Machine& machine) {
  return std::max(1, machine.gpus_per_node / std::max(1, machine.host.sockets));
}

}  // namespace

double pcie_bytes_per_second(const PcieSpec& pcie) {
  return pcie.scale * 12 * giga * std::pow(2.0, pcie.generation - 3) * pcie.lanes / 16.0;
}

CommGroup group_of(const Machine& machine, int ranks) {
  const int per_node = std::min(ranks, machine.gpus_per_node);
  const int nodes = nodes_of(ranks, machine);
  return {.ranks_per_node = per_node, .nodes = nodes, .absent = nodes * per_node - ranks};
}

NodeLinks node_links(const Machine& machine, const CommGroup& group) {
  NodeLinks links;
  const int ranks = group.ranks_per_node;
  if (ranks == 1) return links;
  const int cc = machine.device.compute_capability;
  if (machine.device.architecture == Architecture::cpu) {
    links.path = NodePath::cpu;
    return links;
  }
  if (machine.intra == IntraLink::nvlink &&
      (machine.nvlink.layout != NvlinkLayout::bridge || pair_is_bridged(machine, group))) {
    const NvlinkRoom room = nvlink_room(machine, ranks);
    links.path = NodePath::nvlink;
    links.channel = best_candidate(intra_candidates(cc), room.bundle);
    links.rings = room.total;
    links.bundle = room.bundle;
    links.nvlink_channels = std::max(1, static_cast<int>(room.total / links.channel + 1e-9));
    links.capacity = nvlink_speed(cc) * machine.nvlink.links_per_gpu;
    return links;
  }
  const int last = group.first_local + (ranks - 1) * group.stride;
  const bool one_switch =
      group.first_local / machine.pcie.gpus_per_switch == last / machine.pcie.gpus_per_switch;
  links.crosses_sockets =
      group.first_local / gpus_per_socket(machine) != last / gpus_per_socket(machine);
  // Copies are direct within a switch tree, or between two GPUs of an AMD host (fact 108).
  const bool direct = machine.intra != IntraLink::host && machine.pcie.peer_to_peer &&
                      (one_switch || (ranks == 2 && machine.host.vendor == CpuVendor::amd));
  links.path = direct ? NodePath::pcie_peer : NodePath::host_memory;
  links.capacity = pcie_bytes_per_second(machine.pcie);
  double limit = pcie_bytes_per_second(machine.pcie);
  if (machine.host.vendor == CpuVendor::intel && !one_switch) limit *= 5.0 / 6.0;  // fact 99
  if (links.crosses_sockets) limit = std::min(limit, socket_speed(machine));
  links.channel = best_candidate(intra_candidates(cc), limit);
  return links;
}

int usable_nics(const Machine& machine, const CommGroup& group) {
  const int nics = machine.fabric.nics_per_node;
  const int gpus = std::min(machine.gpus_per_node, group.ranks_per_node * group.concurrent);
  // A GPU uses the NICs nearest to it: NICs are spread evenly over the node's GPUs.
  return std::clamp((gpus * nics + machine.gpus_per_node - 1) / machine.gpus_per_node, 1,
                    std::max(1, nics));
}

NcclSystem nccl_system(const Machine& machine, const CommGroup& group) {
  assert(group.ranks_per_node <= machine.gpus_per_node);
  const int cc = machine.device.compute_capability;
  const NodeLinks links = node_links(machine, group);
  NcclSystem s{.compute_capability = cc,
               .cpu = machine.host.vendor,
               .ranks = group.ranks(),
               .nodes = group.nodes,
               .nic_latency = nic_latency(machine.fabric)};
  const bool nvlink = links.path == NodePath::nvlink;
  s.intra_link = links.path == NodePath::none ? NcclLink::net
                 : nvlink                     ? NcclLink::nvlink
                                              : NcclLink::pci;
  // LL128 requires that 128 bytes arrive in order, which EFA does not guarantee.
  const bool gpu_direct =
      machine.fabric.kind == FabricKind::infiniband || machine.fabric.kind == FabricKind::roce;
  s.ll128 = cc >= 70 && (nvlink || links.path == NodePath::none) &&
            (group.nodes == 1 || (gpu_direct && machine.fabric.gpu_direct));

  if (group.nodes == 1) {
    NcclGraph graph{.channels = nvlink ? links.nvlink_channels : 1,
                    .intra = links.channel,
                    .inter = links.channel};
    // NCCL divides a fast channel into two of half the speed (fact 100).
    const bool kept = cc > 80 && graph.intra < 50 * giga && graph.channels > 4;
    if (graph.intra >= 25 * giga && !kept) {
      graph.channels *= 2;
      graph.intra /= 2;
      graph.inter /= 2;
    }
    s.ring = s.tree = graph;
  } else {
    // One channel per NIC. The slower of NIC and node determines its speed.
    const int nics = usable_nics(machine, group);
    const double share = static_cast<double>(nics) / group.concurrent;
    NcclGraph graph;
    graph.channels = std::max(1, static_cast<int>(share + 1e-9));
    double limit = machine.fabric.nic_bytes_per_second * share / graph.channels;
    limit = std::min(limit, pcie_bytes_per_second(machine.pcie));
    if (links.path == NodePath::nvlink)
      limit = std::min(limit, links.nvlink_channels * links.channel / graph.channels);
    else if (links.path != NodePath::none)
      limit = std::min(limit, links.channel / graph.channels);
    graph.intra = graph.inter = best_candidate(inter_candidates(cc), limit);
    s.ring = s.tree = graph;
    // The search raises the speed of trees inside nodes step by step, up to twice the speed of
    // NICs. The result is used for two nodes only (ncclTopoCompute in graph/search.cc).
    if (nvlink) {
      const double room = links.nvlink_channels * links.channel / graph.channels;
      s.tree.intra = std::max(graph.inter, std::min(2 * limit, room));
    }
  }
  // NVLink SHARP has one head per GPU, and each GPU's NVLinks are divided among the heads (fact
  // 101).
  if (nvlink && machine.nvlink.multicast && group.ranks_per_node > 2) {
    const double total = links.nvlink_channels * links.channel;
    s.nvls.channels = group.ranks_per_node;
    s.nvls.intra = best_candidate(intra_candidates(cc), total / group.ranks_per_node);
    s.nvls.inter =
        group.nodes == 1 ? s.nvls.intra : s.ring.inter * s.ring.channels / group.ranks_per_node;
  }
  return s;
}

int communicator_channels(const NcclSystem& s) {
  int channels = std::min(64, 2 * s.ring.channels);
  if (s.compute_capability >= 90 && s.nodes > 1 && s.ring.intra > 45 * giga && channels < 16)
    channels *= 2;
  return channels;
}

}  // namespace lockstep
