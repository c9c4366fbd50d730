// Computes the cost of a collective. A measured curve of the machine gives the time if there is
// one; otherwise NCCL's tuning table with corrections does on GPUs, and Gloo's ring with a latency
// and a rate per message on CPUs. Corrections are explained at NetworkModel and in
// docs/networks.md.
#include "costs/collective.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "costs/collective_curve.hpp"
#include "costs/collective_links.hpp"
#include "costs/interference.hpp"

namespace lockstep {
namespace {

template <class Enum>
std::string name_of(Enum value) {
  return std::string(EnumNames<Enum>::names[static_cast<std::size_t>(value)]);
}

bool is_tree(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::tree || algorithm == NcclAlgorithm::nvls_tree;
}
bool is_nvls(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::nvls || algorithm == NcclAlgorithm::nvls_tree;
}

// Bytes/s of the PCIe link over which a GPU stages data through host memory.
double host_path_link(const Machine& machine, const CommGroup& group, const NodeLinks& links,
                      const NetworkModel& model) {
  if (machine.pcie.host_path_bytes_per_second > 0)
    return machine.pcie.host_path_bytes_per_second / model.host_staging_efficiency;
  // If the node has no peer-to-peer at all, the GPUs of a switch share its uplink.
  const int sharing =
      machine.pcie.peer_to_peer ? 1 : std::min(machine.pcie.gpus_per_switch, group.ranks_per_node);
  return links.capacity / sharing;
}

// Payload bytes/s between nodes that one of the concurrent groups gets from the NICs and the
// fabric.
double nic_share(const Machine& machine, const CommGroup& group, Collective collective) {
  return nic_payload_rate(machine) * usable_nics(machine, group) / group.concurrent *
         fabric_share(machine, group, collective);
}

// The limit that wires and host memory set, as algorithm bandwidth (full size over seconds). It
// does not depend on NCCL's own numbers. LL sends a flag with every datum, which halves its
// payload.
double physical_limit(const Machine& machine, const CommGroup& group, const NcclSystem& system,
                      const NodeLinks& links, Collective collective, const NcclEstimate& e,
                      const NetworkModel& model) {
  const bool low_latency = e.protocol == NcclProtocol::ll;  // every datum has a flag
  // Algorithm bandwidth of a ring divided by the rate of its wire: every rank sends steps / ranks
  // times the full size.
  const double per_byte = 1.0 / std::max(1, ring_steps(collective, group.ranks())) * group.ranks();
  double limit = std::numeric_limits<double>::infinity();
  if (links.path == NodePath::host_memory)
    limit = host_path_link(machine, group, links, model) * per_byte *
            (low_latency ? std::min(0.5, model.host_staging_efficiency)
                         : model.host_staging_efficiency);
  if (group.nodes > 1) {
    // In a tree over two nodes each node sends the buffer once. Over more nodes an inner node sends
    // it twice.
    const double ratio = is_tree(e.algorithm) ? (group.nodes == 2 ? 1 : 0.5) : per_byte;
    double rate = nic_share(machine, group, collective);
    // Over TCP every channel is one stream (fact 79).
    if (machine.fabric.kind == FabricKind::ethernet)
      rate = std::min(rate, communicator_channels(system) * connection_rate(machine));
    limit = std::min(limit, rate * ratio * (low_latency ? 0.5 : 1));
  }
  return limit;
}

struct Times {
  double latency = 0, transfer = 0;
  double total() const { return latency + transfer; }
};

// Seconds until the pipeline of NVLink SHARP is full. Chunks pass through stages: the sum, the
// spread of the sum, and in a tree over nodes also each level up and down. All 16 channels (fact
// 100) work on one chunk for every GPU of the node at the same time. The chunk size depends on the
// message size (calcCollChunking in NCCL's enqueue.cc).
double nvls_fill(const CommGroup& group, NcclAlgorithm algorithm, double bytes, double bandwidth) {
  constexpr double KiB = 1024;
  const double at_once = 16.0 * group.ranks_per_node;
  double chunk = 128 * KiB, stages = 2;
  const auto at_most = [&](double smaller, double chunks) {
    if (bytes < chunks * at_once * chunk) chunk = std::min(chunk, smaller);
  };
  if (algorithm == NcclAlgorithm::nvls) {
    at_most(64 * KiB, 64);
    at_most(32 * KiB, 8);
    at_most(16 * KiB, 2);
  } else {
    stages += 2 * std::floor(std::log2(group.nodes));
    if (group.nodes >= 4) chunk = 64 * KiB;
    at_most(64 * KiB, 4);
    at_most(32 * KiB, 1);
  }
  return stages * std::min(bytes, at_once * chunk) / bandwidth;
}

// Latency and transfer time of a candidate: NCCL's estimate with the corrections of the model.
Times refine(const Machine& machine, const CommGroup& group, const NcclSystem& system,
             const NodeLinks& links, Collective collective, double bytes, const NcclEstimate& e,
             const NetworkModel& model) {
  const bool low_latency = e.protocol == NcclProtocol::ll;
  Times t{e.latency + model.call_seconds, 0};
  double bandwidth = e.full_bandwidth;
  if (group.nodes == 1 && links.path == NodePath::nvlink) {
    // The table rounds the links' bandwidth down to whole channels; the wires have the full
    // bandwidth. The losses of NVLink SHARP, and of LL on Hopper, are already in the table.
    if (low_latency) {
      if (system.compute_capability < 90) bandwidth *= model.nvlink_ll_efficiency;
    } else if (e.algorithm != NcclAlgorithm::nvls) {
      t.latency += (model.bulk_hop_factor - 1) * e.hops;
      bandwidth *= model.nvlink_efficiency * links.rings / (links.nvlink_channels * links.channel);
    }
  }
  // The table limits a tree's channel only to steer NCCL's choice. On the wire a GPU sends all its
  // summands, and also the sums of the part of 1 / ranks_per_node of the data that it owns.
  if (e.algorithm == NcclAlgorithm::nvls_tree)
    bandwidth = model.nvlink_efficiency * links.rings / (1 + 1.0 / group.ranks_per_node);
  const bool shared = machine.fabric.kind == FabricKind::efa;
  if (e.algorithm == NcclAlgorithm::tree && group.nodes > 1 && low_latency)
    t.latency += (model.net_tree_ll_hop_factor - 1) * (e.hops - e.net_hops);
  if (e.algorithm == NcclAlgorithm::ring && group.nodes > 1 && !low_latency) {
    if (shared) t.latency += (model.shared_hop_factor - 1) * e.net_hops;
    if (e.protocol == NcclProtocol::ll128) t.latency += (model.net_ll128_hop_factor - 1) * e.hops;
  }
  // Through host memory a hop consists of a write and a read, so it takes twice as long.
  if (links.path == NodePath::host_memory) t.latency += e.hops;
  bandwidth =
      std::min(bandwidth, physical_limit(machine, group, system, links, collective, e, model));
  if (e.algorithm == NcclAlgorithm::tree) bandwidth *= tree_size_factor(e.protocol, bytes);
  t.transfer = bytes / bandwidth;
  if (is_nvls(e.algorithm)) t.latency += nvls_fill(group, e.algorithm, bytes, bandwidth);
  if (shared && is_tree(e.algorithm) && !low_latency)
    t.transfer += bytes * model.shared_tree_seconds_per_byte * (group.nodes - 1);
  return t;
}

// A candidate with its corrected time.
struct Chosen {
  NcclEstimate estimate;
  Times times;
};

// The candidate with the shortest corrected time. NCCL itself chooses by the uncorrected table.
// That choice would change the protocol at sizes at which measured curves have no step, and at
// different sizes for each number of ranks, so more bytes or more ranks could take less time.
Chosen choose(const Machine& machine, const CommGroup& group, Collective collective, double bytes,
              const NetworkModel& model) {
  const NcclSystem system = nccl_system(machine, group);
  const NodeLinks links = node_links(machine, group);
  std::vector<Chosen> all;
  for (const NcclEstimate& e : nccl_estimates(system, collective, bytes)) {
    // Inside a node NCCL uses rings or NVLink SHARP; trees are for groups over several nodes.
    if (group.nodes == 1 && e.algorithm == NcclAlgorithm::tree) continue;
    all.push_back({e, refine(machine, group, system, links, collective, bytes, e, model)});
  }
  return *std::ranges::min_element(all, {}, [](const Chosen& c) { return c.times.total(); });
}

// The full logical size of the same collective over fewer nodes, with the same bytes per rank.
double bytes_over(const CommGroup& group, Collective collective, double bytes,
                  const CommGroup& fewer) {
  const bool shards = collective == Collective::all_gather ||
                      collective == Collective::reduce_scatter ||
                      collective == Collective::all_to_all;
  return shards ? bytes * fewer.ranks() / group.ranks() : bytes;
}

// Ensures monotonicity: with equal bytes per rank, more nodes never take less time than fewer,
// because the exchange among some of the nodes is a part of the exchange among all. The table alone
// violates this: its hops inside a node become shorter as soon as there are two nodes, and the
// sizes at which it changes algorithms depend on the number of nodes. The missing time is added to
// the latency.
Chosen choose_over_nodes(const Machine& machine, const CommGroup& group, Collective collective,
                         double bytes, const NetworkModel& model) {
  Chosen chosen = choose(machine, group, collective, bytes, model);
  for (int nodes = 1; nodes < group.nodes; nodes *= 2) {
    CommGroup fewer = group;
    fewer.nodes = nodes;
    fewer.absent = 0;
    if (fewer.ranks() == 1) continue;
    const Chosen part =
        choose(machine, fewer, collective, bytes_over(group, collective, bytes, fewer), model);
    chosen.times.latency += std::max(0.0, part.times.total() - chosen.times.total());
  }
  return chosen;
}

// An all-reduce that is summed inside the nodes first, and then by the switches between the nodes.
// The two stages overlap, so the slower one determines the transfer time (SwitchML, SHARP: fact
// H130).
Times in_network_times(const Machine& machine, const CommGroup& group, double bytes,
                       const NetworkModel& model) {
  CommGroup node = group;
  node.nodes = 1;
  node.absent = 0;
  Times times;
  if (node.ranks() > 1) times = choose(machine, node, Collective::all_reduce, bytes, model).times;
  times.latency += model.call_seconds + 2 * machine.fabric.latency_seconds;
  const double rate = nic_share(machine, group, Collective::all_reduce);
  times.transfer = std::max(times.transfer, bytes / rate);
  return times;
}

// Bytes that each rank sends.
double sent_bytes(const CommGroup& group, Collective collective, double bytes) {
  const double n = group.ranks();
  switch (collective) {
    case Collective::all_to_all:
      return bytes * (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      return bytes;
    default:
      return bytes * ring_steps(collective, group.ranks()) / n;
  }
}

// Ranks on CPUs: Gloo's ring over loopback or TCP. Every message costs a latency, and its bytes
// cost time by a rate.
Times cpu_times(const Machine& machine, const CommGroup& group, Collective collective,
                double bytes) {
  double rate = machine.host.loopback_bytes_per_second, message = machine.host.message_seconds;
  if (group.nodes > 1) {
    rate = std::min(connection_rate(machine), nic_share(machine, group, collective));
    message += machine.fabric.latency_seconds;
  }
  double messages = ring_steps(collective, group.ranks());
  if (collective == Collective::send_recv) messages = 1;
  if (collective == Collective::all_to_all) messages = group.ranks() - 1;
  return {messages * message, sent_bytes(group, collective, bytes) / rate};
}

// NCCL's point-to-point kernels, which its table does not cover: a latency plus the transfer time
// of the slowest link.
Times direct_times(const Machine& machine, const CommGroup& group, Collective collective,
                   double bytes, const NetworkModel& model) {
  const NodeLinks links = node_links(machine, group);
  const NcclSystem system = nccl_system(machine, group);
  const auto loads = collective_links(machine, group, collective, NcclAlgorithm::ring, bytes);
  // One step of a ring with the Simple protocol: a base of 8.4 us and a hop by class of link (facts
  // 90, 91).
  const bool nvlink = links.path == NodePath::nvlink;
  double latency = 8.4e-6 + (nvlink ? 3.4e-6 : 5.7e-6) + model.call_seconds;
  if (group.nodes > 1) {
    latency += 14e-6 + machine.fabric.latency_seconds;
    if (collective ==
        Collective::all_to_all)  // every message across is posted on its own (fact 96)
      latency +=
          (group.ranks() - group.ranks_per_node) * (system.cpu == CpuVendor::intel ? 1e-6 : 2e-6);
  }
  double transfer = 0;
  for (const LinkLoad& load : loads) {
    double rate = load.capacity;
    if (load.link == LinkClass::nic) rate *= fabric_share(machine, group, collective);
    if (load.link == LinkClass::nvlink) {
      rate = model.nvlink_efficiency * links.rings;
      if (collective == Collective::send_recv && machine.nvlink.layout != NvlinkLayout::switched)
        rate = std::min(rate, model.nvlink_efficiency * links.bundle);
    }
    if (load.link == LinkClass::pcie)
      rate = links.path == NodePath::host_memory
                 ? model.host_staging_efficiency * host_path_link(machine, group, links, model)
                 : links.channel;
    transfer = std::max(transfer, load.bytes / rate);
  }
  return {latency, transfer};
}

// Bytes that a collective reads and writes in the memory of one GPU.
double memory_traffic(const std::vector<LinkLoad>& loads) {
  double sent = 0;
  for (const LinkLoad& load : loads)
    if (load.link == LinkClass::nvlink || load.link == LinkClass::pcie)
      sent = std::max(sent, load.bytes);
  return hbm_bytes_per_wire_byte * sent;
}

}  // namespace

CollectiveCost collective_cost(const Machine& machine, const CommGroup& group,
                               Collective collective, double bytes, const NetworkModel& model) {
  CollectiveCost cost;
  const int ranks = group.ranks();
  if (ranks <= 1) return cost;
  assert(bytes >= 0 && group.concurrent >= 1);

  Times times;
  CurveValue measured;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  if (machine.device.architecture == Architecture::cpu) {
    times = cpu_times(machine, group, collective, bytes);
    cost.algorithm = "gloo";
  } else if (collective == Collective::all_to_all || collective == Collective::send_recv) {
    times = direct_times(machine, group, collective, bytes, model);
    cost.algorithm = "direct";
    cost.protocol = name_of(NcclProtocol::simple);
  } else {
    const Chosen chosen = choose_over_nodes(machine, group, collective, bytes, model);
    times = chosen.times;
    algorithm = chosen.estimate.algorithm;
    cost.algorithm = name_of(algorithm);
    cost.protocol = name_of(chosen.estimate.protocol);
    if (collective == Collective::all_reduce && group.nodes > 1 && machine.fabric.in_network_sums) {
      const Times summed = in_network_times(machine, group, bytes, model);
      if (summed.total() < times.total()) {
        times = summed;
        algorithm = NcclAlgorithm::in_network;
        cost.algorithm = name_of(algorithm);
        cost.protocol.clear();
      }
    }
  }
  if (machine.device.architecture != Architecture::cpu)
    cost.channels = communicator_channels(nccl_system(machine, group));

  // A measured curve replaces the time. The model still determines the part that is latency, and
  // the links that are loaded. Curves hold for one group, because they were measured with one group
  // at a time.
  if (const CollectiveCurve* curve = find_curve(machine, name_of(collective), ranks, group.nodes);
      curve != nullptr && group.concurrent == 1) {
    measured = curve_seconds(*curve, bytes);
    times.latency = std::min(times.latency, measured.seconds);
    times.transfer = measured.seconds - times.latency;
    cost.provenance = measured.on_point ? Provenance::measured : Provenance::interpolated;
  }
  cost.latency_seconds = times.latency;
  cost.transfer_seconds = times.transfer;
  cost.links = collective_links(machine, group, collective, algorithm, bytes);
  cost.device_memory_bytes = memory_traffic(cost.links);
  if (machine.device.architecture == Architecture::cpu) {
    cost.cores =
        measured.cores > 0
            ? measured.cores
            : cores_of_sending(machine.host, sent_bytes(group, collective, bytes), cost.seconds());
    cost.compute_speed = measured.compute_speed;
    cost.speed_beside_compute = measured.speed_beside_compute;
  }
  return cost;
}

double network_error(const Machine& machine, int nodes) {
  constexpr double model = 0.3, placement = 0.12;
  const bool shared = machine.fabric.kind == FabricKind::efa;
  return std::hypot(model, shared ? placement * std::log2(nodes) : 0);
}

double cores_of_sending(const HostSpec& host, double bytes, double seconds) {
  if (host.core_network_rate <= 0 || seconds <= 0) return 0;
  return bytes / host.core_network_rate / seconds;
}

double bus_bandwidth(Collective collective, int ranks, double bytes, double seconds) {
  const double n = ranks;
  double factor = 1;
  if (collective == Collective::all_reduce) factor = 2 * (n - 1) / n;
  if (collective == Collective::all_gather || collective == Collective::reduce_scatter ||
      collective == Collective::all_to_all)
    factor = (n - 1) / n;
  return bytes / seconds * factor;
}

}  // namespace lockstep
