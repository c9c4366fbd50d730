// NCCL 2.28's own estimate of what a collective costs, which is how it chooses algorithm and
// protocol: facts 89-98, read from its tuning table. Knows nothing of machines;
// costs/nccl_topology.hpp says what NCCL finds on one. What the chosen collective really takes is
// costs/collective.hpp.
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

// in_network: sums in the switches between nodes, which the table does not have.
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

// What NCCL's graph search found for one algorithm: that many channels at that speed each (fact
// 100).
struct NcclGraph {
  int channels = 0;
  double intra = 0;  // bytes/s of one channel inside a node
  double inter = 0;  // bytes/s of one channel between nodes; = intra on one node
};

struct NcclSystem {
  int compute_capability = 80;
  CpuVendor cpu = CpuVendor::intel;
  int ranks = 1;
  int nodes = 1;  // ranks are spread evenly
  NcclLink intra_link = NcclLink::nvlink;
  bool ll128 = true;       // fact 98
  double nic_latency = 0;  // seconds the graph adds to a network hop
  NcclGraph ring{};        // also used by PAT
  NcclGraph tree{};
  NcclGraph nvls{};  // channels = 0: no NVLink SHARP
};

struct NcclEstimate {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double latency = 0;         // seconds
  double hops = 0;            // the part of it that the hops make up
  double net_hops = 0;        // of these, the ones between nodes
  double bandwidth = 0;       // bytes/s of the collective's full size (algorithm bandwidth)
  double full_bandwidth = 0;  // without the loss of fact 97 that depends on the size
  double seconds = 0;         // latency + bytes / bandwidth
};

// Messages one rank sends one after the other in a ring.
int ring_steps(Collective collective, int ranks);

// What a tree all-reduce of this size keeps of its full bandwidth (fact 97), drawn as a continuous
// line through the table's size classes: with the table's own steps a longer message could be
// faster.
double tree_size_factor(NcclProtocol protocol, double bytes);

// Everything NCCL would consider for this size, best first. `bytes` is the full logical size: the
// buffer of an all-reduce, W times the shard of an all-gather. Empty for one rank and for
// collectives that NCCL does not tune (all_to_all, send_recv).
std::vector<NcclEstimate> nccl_estimates(const NcclSystem& system, Collective collective,
                                         double bytes);

// What NCCL picks: the first of nccl_estimates.
NcclEstimate nccl_choice(const NcclSystem& system, Collective collective, double bytes);

}  // namespace lockstep
