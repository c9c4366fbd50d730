// Counts the bytes that each class of links carries for a collective, from the algorithm's traffic
// per rank and per node. In an all-reduce, a rank of a ring sends 2 (n - 1) / n of the buffer, a
// node of a tree at most twice the buffer (fact 109), and a rank with NVLink SHARP its data and the
// sum of the part that it owns.
#include "costs/collective_links.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// Bytes that one rank sends over its link inside the node.
double local_bytes(const CommGroup& group, Collective collective, NcclAlgorithm algorithm,
                   double bytes) {
  const double ranks = group.ranks();
  const bool sharp = algorithm == NcclAlgorithm::nvls || algorithm == NcclAlgorithm::nvls_tree;
  switch (collective) {
    case Collective::all_reduce:
      // With NVLink SHARP a rank sends its data once and the part it owns once more, reduced.
      if (sharp) return bytes * (1 + 1.0 / group.ranks_per_node);
      if (algorithm == NcclAlgorithm::in_network) {
        return bytes * 2 * (group.ranks_per_node - 1) / group.ranks_per_node;
      }
      return bytes * (algorithm == NcclAlgorithm::tree ? 2 : 2 * (ranks - 1) / ranks);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return bytes * (ranks - 1) / ranks;
    case Collective::all_to_all:
      return bytes * (group.ranks_per_node - 1) / ranks;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      return bytes;
  }
  return bytes;
}

// Bytes that one node sends to other nodes for one group.
double node_bytes(const CommGroup& group, Collective collective, NcclAlgorithm algorithm,
                  double bytes) {
  const double ranks = group.ranks();
  switch (collective) {
    case Collective::all_reduce:
      if (algorithm == NcclAlgorithm::tree || algorithm == NcclAlgorithm::nvls_tree)
        return bytes * (group.nodes == 2 ? 1 : 2);  // fact 109
      if (algorithm == NcclAlgorithm::in_network) return bytes;
      return bytes * 2 * (ranks - 1) / ranks;
    case Collective::all_to_all:
      return bytes * group.ranks_per_node * (ranks - group.ranks_per_node) / ranks;
    default:
      return local_bytes(group, collective, algorithm, bytes);
  }
}

}  // namespace

double nic_payload_rate(const Machine& machine) {
  return machine.fabric.nic_bytes_per_second * machine.fabric.efficiency;
}

double connection_rate(const Machine& machine) {
  const double rate = nic_payload_rate(machine);
  constexpr double tcp_stream = 25e9 / 8;  // fact 79
  return machine.fabric.kind == FabricKind::ethernet ? std::min(rate, tcp_stream) : rate;
}

namespace {

// Bytes that go up from one leaf switch, as a multiple of the bytes that one node sends; 0 if all
// nodes are under one leaf.
double upward(const Machine& machine, const CommGroup& group, Collective collective) {
  const double leaf = machine.fabric.nodes_per_leaf, nodes = group.nodes;
  if (leaf <= 0 || nodes <= leaf) return 0;
  if (collective == Collective::send_recv) return std::min<double>(leaf, group.span);
  return collective == Collective::all_to_all ? leaf * (nodes - leaf) / (nodes - 1) : 1;
}

// Bytes that cross a trunk in its busier direction, as a multiple of the bytes that one node sends.
double across(const Trunk& trunk, const CommGroup& group, Collective collective) {
  int there = 0, back = 0;  // pairs of ring neighbours across the trunk, by direction
  double first = 0, second = 0;
  for (int node = 0; node < group.nodes; ++node) {
    const int next = (node + group.span) % group.nodes;
    first += is_on(trunk.one, node);
    second += is_on(trunk.other, node);
    there += is_on(trunk.one, node) && is_on(trunk.other, next);
    back += is_on(trunk.other, node) && is_on(trunk.one, next);
  }
  return collective == Collective::all_to_all ? first * second / std::max(1, group.nodes - 1)
                                              : std::max(there, back);
}

}  // namespace

double trunk_rate(const Machine& machine, const Trunk& trunk) {
  return trunk.bytes_per_second * machine.fabric.efficiency;
}

double uplink_rate(const Machine& machine) {
  const FabricSpec& fabric = machine.fabric;
  return nic_payload_rate(machine) * std::max(1, fabric.nics_per_node) * fabric.nodes_per_leaf /
         fabric.oversubscription;
}

double fabric_share(const Machine& machine, const CommGroup& group, Collective collective) {
  double share = 1;
  if (const double sent = upward(machine, group, collective); sent > 0) {
    const double uplinks =
        // in units of one node's NIC rate
        machine.fabric.nodes_per_leaf / machine.fabric.oversubscription;
    share = std::min(share, uplinks / sent);
  }
  for (const Trunk& trunk : machine.fabric.trunks) {
    const double crossing = across(trunk, group, collective);
    const double node = nic_payload_rate(machine) * usable_nics(machine, group);
    if (crossing > 0) share = std::min(share, trunk_rate(machine, trunk) / (crossing * node));
  }
  return share;
}

namespace {

// Adds one load that represents all trunks and has the rate of the slowest trunk. The bytes on a
// faster trunk are scaled down so that they take equally long at that rate.
void add_trunks(std::vector<LinkLoad>& loads, const Machine& machine, const CommGroup& group,
                Collective collective, double node_bytes) {
  LinkLoad load{.link = LinkClass::trunk, .links = 0};
  for (const Trunk& trunk : machine.fabric.trunks) {
    const double rate = trunk_rate(machine, trunk);
    load.capacity = load.capacity > 0 ? std::min(load.capacity, rate) : rate;
  }
  for (const Trunk& trunk : machine.fabric.trunks) {
    const double bytes = node_bytes * across(trunk, group, collective);
    if (bytes <= 0) continue;
    load.bytes = std::max(load.bytes, bytes * load.capacity / trunk_rate(machine, trunk));
    load.total_bytes += bytes;
    ++load.links;
  }
  if (load.links > 0) loads.push_back(load);
}

}  // namespace

std::vector<LinkLoad> collective_links(const Machine& machine, const CommGroup& group,
                                       Collective collective, NcclAlgorithm algorithm,
                                       double bytes) {
  std::vector<LinkLoad> loads;
  const NodeLinks links = node_links(machine, group);
  const int ranks = group.ranks();
  const double local = local_bytes(group, collective, algorithm, bytes);
  const auto add = [&](LinkClass link, double on_each, int count, double capacity) {
    if (on_each > 0 && capacity > 0)
      loads.push_back({link, on_each, on_each * count, count, capacity});
  };
  if (links.path == NodePath::nvlink) add(LinkClass::nvlink, local, ranks, links.capacity);
  if (links.path == NodePath::pcie_peer) add(LinkClass::pcie, local, ranks, links.capacity);
  if (links.path == NodePath::host_memory) add(LinkClass::pcie, local, ranks, links.capacity);
  if (links.path == NodePath::host_memory || links.path == NodePath::cpu) {
    // Every byte is written by the sender and read by the receiver.
    const double rank = 2 * local * group.concurrent;
    add(LinkClass::host_memory, rank * group.ranks_per_node, group.nodes,
        machine.host.memory_bandwidth);
    if (!loads.empty() && group.absent > 0) loads.back().total_bytes = rank * ranks;
  }
  // Concurrent groups share the NICs, and therefore the uplinks and trunks behind the NICs.
  if (group.nodes > 1) {
    const int nics = usable_nics(machine, group);
    const double node = node_bytes(group, collective, algorithm, bytes) * group.concurrent;
    add(LinkClass::nic, node / nics, nics * group.nodes, nic_payload_rate(machine));
    const int leaf = std::max(1, machine.fabric.nodes_per_leaf);
    add(LinkClass::uplink, node * upward(machine, group, collective),
        (group.nodes + leaf - 1) / leaf, uplink_rate(machine));
    add_trunks(loads, machine, group, collective, node);
  }
  return loads;
}

}  // namespace lockstep
