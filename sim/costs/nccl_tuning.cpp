// The tuning table of NCCL 2.28.9 (graph/tuning.cc; facts 90-98), in its own units: microseconds
// and GB/s. For every algorithm and protocol, time = base latency + number of hops x latency of a
// hop + bytes / (bus bandwidth x ratio of the algorithm).
#include "costs/nccl_tuning.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

using PerProtocol = std::array<double, 3>;  // LL, LL128, Simple

// Base latencies (fact 90).
constexpr PerProtocol tree_base{6.8, 14.0, 8.4}, ring_base{6.6, 14.0, 8.4};
constexpr double pat_base = 8.0;
// Latencies of a hop (fact 91). Rows: NVLink, PCI, network.
constexpr std::array<PerProtocol, 3> tree_hop{
    {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}}};
constexpr std::array<PerProtocol, 3> ring_hop{{{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}}};
constexpr std::array<double, 3> nvls_hop{25, 0, 18}, nvls_tree_hop{25, 0, 20.9};
constexpr double pat_net_hop = 14.0;

// Caps on the bandwidth (fact 92). Rows: Volta, Ampere, Hopper, Blackwell; columns: one node, two
// nodes, more nodes.
using Caps = std::array<std::array<double, 3>, 4>;
constexpr Caps ll_bus{{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr Caps ring_ll128_channel{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}}};
constexpr Caps tree_ll128_channel{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr Caps tree_channel{{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr Caps nvls_tree_channel{
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}}};
constexpr std::array<double, 4> nvls_efficiency{0, 0, 0.85, 0.74};

// Share of its bandwidth that a tree all-reduce reaches, by protocol and floor(log2(bytes / 64))
// (fact 97).
constexpr std::size_t size_classes = 23;
constexpr std::array<std::array<double, size_classes>, 3> tree_by_size{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

constexpr double micro = 1e-6;

// Row of the tables of caps: Volta, Ampere, Hopper, Blackwell.
std::size_t generation(int compute_capability) {
  return compute_capability >= 100 ? 3 : compute_capability >= 90 ? 2 : compute_capability >= 80;
}
std::size_t node_column(int nodes) {
  return static_cast<std::size_t>(std::min(nodes, 3) - 1);
}
double log2_floor(double value) {
  return std::floor(std::log2(value));
}

bool is_gather(Collective c) {
  return c == Collective::all_gather || c == Collective::reduce_scatter;
}

// Microseconds of a hop inside a node and of a hop between nodes, as one step of a rank sees them
// (fact 96).
struct Hops {
  double intra, inter;
};
Hops ring_hops(const NcclSystem& s, std::size_t protocol) {
  const bool simple = protocol == 2;
  const auto link = static_cast<std::size_t>(s.intra_link);
  const bool one_per_node = s.ranks == s.nodes;
  Hops hops{ring_hop[link][protocol], one_per_node ? tree_hop[2][protocol] : ring_hop[2][protocol]};
  hops.inter += s.nic_latency / micro * (simple ? 2 : 1);
  if (s.nodes > 1) {
    // On several nodes a hop takes at least as long as the CPU needs to post a message.
    const double post = (s.cpu == CpuVendor::intel ? 1.0 : 2.0) * (simple ? 3 : 1);
    hops.intra = std::max(hops.intra, post);
  }
  return hops;
}

// Microseconds of all hops, and of the hops between nodes only.
struct HopTimes {
  double all = 0, net = 0;
};

// A ring has one hop per step. In every round, nodes - 1 of these hops lead to another node.
HopTimes ring_latency(const NcclSystem& s, Collective collective, std::size_t protocol,
                      double bytes) {
  const Hops hops = ring_hops(s, protocol);
  const double steps = ring_steps(collective, s.ranks);
  const double rounds = collective == Collective::all_reduce ? 2 : 1;
  const double inter_steps = s.nodes == 1 ? 0 : rounds * (s.nodes - 1);
  HopTimes times{(steps - inter_steps) * hops.intra + inter_steps * hops.inter,
                 inter_steps * hops.inter};
  if (protocol == 2 && collective == Collective::all_reduce && s.nodes > 1 &&
      bytes / (s.ring.channels * s.ranks) >= 64) {
    const double factor = s.compute_capability < 80 ? 1.9 : 1.4;  // fact 97, on the base too
    times.all = factor * times.all + (factor - 1) * ring_base[protocol];
    times.net *= factor;
  }
  return times;
}

// A tree has a chain inside each node and log2(nodes) levels between nodes. Data pass both up and
// down.
HopTimes tree_latency(const NcclSystem& s, std::size_t protocol) {
  const auto link = static_cast<std::size_t>(s.intra_link);
  double inter = tree_hop[2][protocol];
  inter += s.nic_latency / micro * (protocol == 2 ? 2 : 1);
  const double per_node = static_cast<double>(s.ranks) / s.nodes;
  const double net = 2 * log2_floor(s.nodes) * inter;
  return {2 * (per_node - 1) * tree_hop[link][protocol] + net, net};
}

// Cap of LL in GB/s. Across nodes the row of the table depends on the CPU and not on the GPU (fact
// 92, last sentence of the LL row).
double ll_cap(const NcclSystem& s) {
  const std::size_t row =
      s.nodes == 1 ? generation(s.compute_capability) : (s.cpu == CpuVendor::amd ? 1 : 0);
  return ll_bus[row][node_column(s.nodes)];
}

double graph_bus(const NcclGraph& graph, int nodes) {  // GB/s
  return graph.channels * (nodes <= 2 ? graph.intra : graph.inter) / giga;
}

// Bus bandwidth of rings in GB/s. LL sends a flag with every datum, LL128 one flag in 16 words.
double ring_bus(const NcclSystem& s, std::size_t protocol) {
  const double bus = graph_bus(s.ring, s.nodes);
  if (protocol == 0) return std::min(ll_cap(s), 0.5 * bus);
  if (protocol == 1)
    return std::min(0.92 * bus,
                    s.ring.channels *
                        ring_ll128_channel[generation(s.compute_capability)][node_column(s.nodes)]);
  return bus;
}

// Bus bandwidth of trees in GB/s, limited by the caps of the table.
double tree_bus(const NcclSystem& s, std::size_t protocol) {
  const std::size_t row = generation(s.compute_capability), column = node_column(s.nodes);
  const double channels = s.tree.channels;
  const double bus =
      std::min(0.92 * graph_bus(s.tree, s.nodes), channels * tree_channel[row][column]);
  if (protocol == 0) return std::min(bus / 3.8, ll_cap(s));
  if (protocol == 1)
    return std::min(bus * (s.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                    channels * tree_ll128_channel[row][column]);
  return bus;
}

// Bandwidth of NVLink SHARP over all channels, in GB/s; 0 if NCCL does not use it for the
// collective (fact 94).
double nvls_bus(const NcclSystem& s, Collective collective, bool tree) {
  const NcclGraph& graph = s.nvls;
  if (graph.channels < 2 || tree != (s.nodes > 1)) return 0;
  const std::size_t row = generation(s.compute_capability);
  double channel =
      graph.intra / giga * nvls_efficiency[row] * (graph.channels - 1) / graph.channels;
  if (collective == Collective::all_reduce)
    channel *= 2;
  else if (is_gather(collective) && !tree)
    channel *= (s.ranks - 1.0) / s.ranks;
  else
    return 0;
  if (tree) {
    channel = std::min(channel, graph.inter / giga * (s.nodes == 2 ? 2 : 1));
    channel = std::min(channel, nvls_tree_channel[row][node_column(s.nodes)]);
  }
  return channel * graph.channels;
}

// Collects the estimates for one size.
class Candidates {
 public:
  explicit Candidates(double bytes) : bytes_(bytes) {}
  void add(NcclAlgorithm algorithm, std::size_t protocol, double base_us, const HopTimes& hops,
           double gbps, double size_factor = 1) {
    if (gbps <= 0) return;
    const double latency = (base_us + hops.all) * micro, bandwidth = gbps * giga * size_factor;
    list_.push_back({.algorithm = algorithm,
                     .protocol = static_cast<NcclProtocol>(protocol),
                     .latency = latency,
                     .hops = hops.all * micro,
                     .net_hops = hops.net * micro,
                     .bandwidth = bandwidth,
                     .full_bandwidth = gbps * giga,
                     .seconds = latency + bytes_ / bandwidth});
  }
  std::vector<NcclEstimate> sorted() {
    std::stable_sort(list_.begin(), list_.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    return std::move(list_);
  }

 private:
  double bytes_;
  std::vector<NcclEstimate> list_;
};

}  // namespace

int ring_steps(Collective collective, int ranks) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (ranks - 1);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return ranks - 1;
    default:
      return ranks;
  }
}

double tree_size_factor(NcclProtocol protocol, double bytes) {
  const auto& table = tree_by_size[static_cast<std::size_t>(protocol)];
  const double position = bytes <= 64 ? 0 : std::log2(bytes / 64);
  if (position >= size_classes - 1.0) return table.back();
  const auto below = static_cast<std::size_t>(position);
  return std::lerp(table[below], table[below + 1], position - static_cast<double>(below));
}

std::vector<NcclEstimate> nccl_estimates(const NcclSystem& s, Collective collective, double bytes) {
  assert(s.ranks >= s.nodes && s.nodes >= 1 && bytes >= 0);
  if (s.ranks == 1 || collective == Collective::all_to_all || collective == Collective::send_recv)
    return {};
  // Bus bandwidth times a ratio is algorithm bandwidth (full size over time). A ring sends steps /
  // ranks times the full size over every link; a tree sends it once up and once down.
  Candidates candidates(bytes);
  const double ranks = s.ranks;
  const double ring_ratio = ranks / ring_steps(collective, s.ranks);  // fact 95
  for (std::size_t protocol = 0; protocol < 3; ++protocol) {
    if (protocol == 1 && !s.ll128) continue;
    candidates.add(NcclAlgorithm::ring, protocol, ring_base[protocol],
                   ring_latency(s, collective, protocol, bytes),
                   ring_bus(s, protocol) * ring_ratio);
    if (collective != Collective::all_reduce || s.tree.channels == 0) continue;
    double kept = 1;
    const double size_class = bytes < 64 ? -1 : log2_floor(bytes / 64);
    if (size_class >= 0 && size_class < static_cast<double>(size_classes))
      kept = tree_by_size[protocol][static_cast<std::size_t>(size_class)];
    candidates.add(NcclAlgorithm::tree, protocol, tree_base[protocol], tree_latency(s, protocol),
                   tree_bus(s, protocol) * 0.5, kept);
  }
  // NVLink SHARP inside one node, and NVLink SHARP with a tree over several nodes. Both exist only
  // with Simple.
  const auto link = static_cast<std::size_t>(s.intra_link);
  const double nvls_ratio = collective == Collective::all_reduce ? ring_ratio : 1;
  candidates.add(NcclAlgorithm::nvls, 2, 0, {.all = nvls_hop[link]},
                 nvls_bus(s, collective, false) * nvls_ratio);
  const double depth = log2_floor(s.nodes);
  const double nvls_net = 2 * depth * (nvls_tree_hop[2] + 2 * s.nic_latency / micro);
  candidates.add(NcclAlgorithm::nvls_tree, 2, 0,
                 {.all = nvls_tree_hop[link] + nvls_net, .net = nvls_net},
                 nvls_bus(s, collective, true) * nvls_ratio);
  // PAT needs log2(nodes) hops and is used only with one rank per node.
  const double pat_net = depth * (pat_net_hop + 2 * s.nic_latency / micro) / 3.5;
  // NCCL uses PAT only under this condition (fact 98). A reduce-scatter that averages, as FSDP's
  // does, rules PAT out (fact 56).
  if (s.nodes > 1 && s.ranks == s.nodes && collective == Collective::all_gather)
    candidates.add(NcclAlgorithm::pat, 2, pat_base, {.all = pat_net + 2.8 * ranks, .net = pat_net},
                   graph_bus(s.ring, s.nodes) * 0.75);
  return candidates.sorted();
}

NcclEstimate nccl_choice(const NcclSystem& system, Collective collective, double bytes) {
  const auto estimates = nccl_estimates(system, collective, bytes);
  return estimates.empty() ? NcclEstimate{} : estimates.front();
}

}  // namespace lockstep
