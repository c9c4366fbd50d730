// The result of NCCL's topology search on a machine: link classes, channel count and channel speed
// of its graphs (facts 98-101). The search itself is not run; its result follows from the link that
// limits a ring on each kind of node. nccl_tuning.hpp turns the result into times.
#pragma once

#include <string>

#include "costs/nccl_tuning.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

// The ranks of one communicator: ranks_per_node GPUs in each of `nodes` nodes. If a node's GPUs are
// numbered from 0, the group has the GPUs first_local, first_local + stride, ... of each node.
//   data parallel over everything:      {ranks_per_node 8, nodes 4}
//   HSDP sharding group, one per node:  {ranks_per_node 8, nodes 1, concurrent 1}
//   HSDP replica group:                 {ranks_per_node 1, nodes 4, concurrent 8}
struct CommGroup {
  int ranks_per_node = 1;
  int nodes = 1;
  int concurrent = 1;  // equal groups per node that run the same collective at the same time and so
                       // share the node's NICs; their GPUs are distinct
  int first_local = 0;
  int absent = 0;  // number of ranks that the last node lacks
  int stride = 1;  // between neighbouring ranks of a node
  int span = 1;    // send_recv: distance from sender to receiver, in nodes
  int axis = 0;    // distinguishes groups of equal shape with different communicators

  int ranks() const { return ranks_per_node * nodes - absent; }
  bool operator==(const CommGroup&) const = default;
};

// The group of the first `ranks` GPUs of a machine, nodes filled one after the other. A last node
// that is not full counts as a full one in all link rates, because the busiest node determines the
// pace of NCCL's rings.
CommGroup group_of(const Machine& machine, int ranks);

// The path between two neighbouring ranks of one node.
enum class NodePath {
  none,  // one rank per node
  nvlink,
  pcie_peer,    // direct, within one switch or between two GPUs of an AMD host (fact 108)
  host_memory,  // written to and read from host memory (fact 108)
  cpu,          // ranks are processes on CPU cores
};

// Links inside a node as NCCL counts them for a group.
struct NodeLinks {
  NodePath path = NodePath::none;
  bool crosses_sockets = false;
  int nvlink_channels = 0;  // number of rings that fit; `channel` is the rate of each
  double channel = 0;       // bytes/s, as NCCL counts
  double rings = 0;         // bytes/s of one GPU's NVLinks that rings can use, as NCCL counts
  double bundle = 0;        // bytes/s between two neighbours, as NCCL counts
  double capacity = 0;      // bytes/s one way on one GPU's link, which all traffic shares
};

// Bytes/s of a PCIe link, one way, as NCCL counts it and as copies reach it (fact 99). For 16 lanes
// of generations 3, 4 and 5 it is 12, 24 and 48 GB/s.
double pcie_bytes_per_second(const PcieSpec& pcie);

NodeLinks node_links(const Machine& machine, const CommGroup& group);
// NICs of one node that the group and its concurrent groups can use together.
int usable_nics(const Machine& machine, const CommGroup& group);

// The input of NCCL's tuning table for this group.
NcclSystem nccl_system(const Machine& machine, const CommGroup& group);
// Channels of the communicator. A running collective occupies one multiprocessor for each channel
// (facts 100, 105).
int communicator_channels(const NcclSystem& system);

}  // namespace lockstep
