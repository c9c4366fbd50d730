// NCCL 2.28's own estimate of the cost of a collective, by which it chooses algorithm and protocol
// (facts 89-98, from its tuning table). The input is a NcclSystem, which costs/nccl_topology.hpp
// derives from a machine. The estimate is no good prediction; costs/collective.hpp corrects it.
#pragma once

#include <array>
#include <vector>

#include "core/fields.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

inline constexpr double giga = 1e9;  // NCCL writes GB/s

enum class Collective {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  send_recv,  // every rank sends to its right neighbour: one point-to-point message
};
template <>
struct EnumNames<Collective> {
  static constexpr std::array names{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                    "reduce",     "all_to_all", "send_recv"};
};

// Algorithms of NCCL's table, and in_network, which the table lacks: the switches between nodes
// compute the sums.
enum class NcclAlgorithm { tree, ring, nvls, nvls_tree, pat, in_network };
template <>
struct EnumNames<NcclAlgorithm> {
  static constexpr std::array names{"tree", "ring", "nvls", "nvls_tree", "pat", "in_network"};
};
enum class NcclProtocol { ll, ll128, simple };
template <>
struct EnumNames<NcclProtocol> {
  static constexpr std::array names{"ll", "ll128", "simple"};
};

enum class NcclLink { nvlink, pci, net };

// Result of NCCL's graph search for one algorithm: the number of channels and the speed of each
// (fact 100).
struct NcclGraph {
  int channels = 0;
  double intra = 0;  // bytes/s of one channel inside a node
  double inter = 0;  // bytes/s of one channel between nodes; = intra on one node
};

// A communicator as the tuning table sees it.
struct NcclSystem {
  int compute_capability = 80;
  CpuVendor cpu = CpuVendor::intel;
  int ranks = 1;
  int nodes = 1;  // ranks are assumed to be spread evenly
  NcclLink intra_link = NcclLink::nvlink;
  bool ll128 = true;       // whether LL128 is allowed (fact 98)
  double nic_latency = 0;  // seconds that a network plugin adds to a hop
  NcclGraph ring{};        // also used by PAT
  NcclGraph tree{};
  NcclGraph nvls{};  // channels = 0: no NVLink SHARP
};

// NCCL's estimate for one algorithm and protocol.
struct NcclEstimate {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double latency = 0;         // seconds
  double hops = 0;            // the part of the latency that hops take, in seconds
  double net_hops = 0;        // the part that hops between nodes take, in seconds
  double bandwidth = 0;       // bytes/s of the collective's full size (algorithm bandwidth)
  double full_bandwidth = 0;  // bandwidth without the loss of fact 97, which depends on the size
  double seconds = 0;         // latency + bytes / bandwidth
};

// Number of messages that one rank sends one after the other in a ring all_reduce, all_gather or
// reduce_scatter. `ranks` for all others: the algorithm bandwidth of broadcast and reduce then
// equals the bus bandwidth (fact 95).
int ring_steps(Collective collective, int ranks);

// Share of its full bandwidth that a tree all-reduce of this size reaches (fact 97). The table has
// one share for each class of sizes; this function joins them by a continuous line, because with
// steps a longer message could take less time than a shorter one.
double tree_size_factor(NcclProtocol protocol, double bytes);

// Estimates for all algorithms and protocols that NCCL would consider at this size, the fastest
// first. `bytes` is the full logical size, for example the buffer of an all-reduce, or ranks x
// shard of an all-gather. Empty for one rank and for collectives that NCCL does not tune
// (all_to_all, send_recv).
std::vector<NcclEstimate> nccl_estimates(const NcclSystem& system, Collective collective,
                                         double bytes);

// NCCL's choice: the first of nccl_estimates(), or a default value if there is none.
NcclEstimate nccl_choice(const NcclSystem& system, Collective collective, double bytes);

}  // namespace lockstep
