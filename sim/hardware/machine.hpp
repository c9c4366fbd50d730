// A platform: one kind of node, its links, and the number of such nodes that a network joins; the
// content of a file in platforms. Cost models, memory accounting and prices read a Machine;
// load_machine() makes it. The GPUs of a job fill nodes one after the other. Rates are bytes/s one
// way, times seconds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hardware/device.hpp"

namespace lockstep {

// The link between the GPUs of a node. host: through host memory (no peer-to-peer), or the loopback
// interface between CPU ranks.
enum class IntraLink { none, nvlink, pcie, host };
template <>
struct EnumNames<IntraLink> {
  static constexpr std::array names{"none", "nvlink", "pcie", "host"};
};
// The network between nodes.
enum class FabricKind { none, ethernet, roce, efa, infiniband };
template <>
struct EnumNames<FabricKind> {
  static constexpr std::array names{"none", "ethernet", "roce", "efa", "infiniband"};
};
// How the NVLinks of a node's GPUs are wired.
enum class NvlinkLayout {
  switched,   // NVSwitch: any GPU reaches any other with all its links
  mesh,       // point to point, the same number of links between every two GPUs of the node
  cube_mesh,  // eight GPUs as in DGX-1: two quads; one or two links between neighbours
  bridge,     // GPUs in bridged pairs; GPUs of different pairs communicate over PCIe
};
template <>
struct EnumNames<NvlinkLayout> {
  static constexpr std::array names{"switched", "mesh", "cube-mesh", "bridge"};
};
// Vendor of the host's CPU, by which NCCL chooses PCIe paths.
enum class CpuVendor { intel, amd, arm };
template <>
struct EnumNames<CpuVendor> {
  static constexpr std::array names{"intel", "amd", "arm"};
};

// The NVLinks of a node.
struct NvlinkSpec {
  int links_per_gpu = 0;        // all links of one GPU
  double bytes_per_second = 0;  // one link, one way, line rate
  NvlinkLayout layout = NvlinkLayout::switched;
  bool multicast = false;  // NVLink SHARP (NVLS) on NVSwitch 3
};

// The PCIe links between GPUs and host.
struct PcieSpec {
  int generation = 4;
  int lanes = 16;
  // Whether GPUs access each other's memory directly. If false, copies go through host memory (g5,
  // consumer cards).
  bool peer_to_peer = true;
  int gpus_per_switch = 1;  // GPUs that share one uplink to the root complex
  // Rate at which a GPU sends to its neighbour through host memory while all GPUs of the node do
  // the same, for hosts on which it was measured (virtual machines); 0 = derived from the link.
  double host_path_bytes_per_second = 0;
  // Factor on the rates that follow from generation and lanes. It differs from 1 only in questions
  // such as "what would 10 % more PCIe bandwidth gain?" (questions/resources.hpp).
  double scale = 1;
};

// All NVMe drives of a node together.
struct NvmeSpec {
  double read_bytes_per_second = 0;  // 0 = drives not known
  double write_bytes_per_second = 0;
  double capacity_bytes = 0;  // 0 = not known
};

// The host of a node.
struct HostSpec {
  CpuVendor vendor = CpuVendor::amd;
  int sockets = 2;
  int cores = 64;
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s, all sockets
  NvmeSpec nvme{};
  // Host time of one forward operator of eager PyTorch, Python included: the upper end of fact
  // 134's 5 to 25 us. Its other number agrees: 5 to 10 ms for a ResNet-18 step are 22 to 44 us for
  // each of its 92 forward operators, with 162 backward ones at 0.82. The host of 25 genuine steps
  // took 34 us (calibrate/oracle/gpu/steps.py --hosts). Megatron's rows need 46.8 us, and
  // torchvision's networks took 66 us in PyTorch 1; but FSDP in small steps on one A100
  // (docs/study.md) leaves no room for that.
  double dispatch_seconds = 25e-6;
  double launch_seconds = 3e-6;  // host time of one additional launch inside an operator
  // Two processes of one host over the loopback interface: rate one way, and time per message (Gloo
  // on TCP).
  double loopback_bytes_per_second = 1.5e9;
  double message_seconds = 90e-6;
  // Bytes that a process on CPUs sends, while it receives as many, for one second of CPU time; 0 =
  // communication costs no CPU time. Measured curves with CPU times take precedence.
  double core_network_rate = 0;
};

// A full-duplex link that joins two groups of nodes. All traffic between the groups passes through
// it, in addition to the nodes' NICs.
struct Trunk {
  std::vector<int> one, other;  // nodes, from 0
  double bytes_per_second = 0;  // line rate, in each direction
  bool operator==(const Trunk&) const = default;
};

// Whether a node belongs to one side of a trunk.
bool is_on(const std::vector<int>& side, int node);

// The network between nodes. The uplinks of a leaf switch together have the rate of all NICs below
// the switch, divided by `oversubscription`.
struct FabricSpec {
  FabricKind kind = FabricKind::none;
  int nics_per_node = 1;
  double nic_bytes_per_second = 0;  // line rate of one NIC, one way
  double latency_seconds = 0;       // half a round trip as MPI measures it (fact 144)
  double efficiency = 0.94;         // payload / line rate (fact 144)
  double oversubscription = 1;      // of the tree above the leaf switches
  int nodes_per_leaf = 0;           // 0 = one non-blocking switch
  std::vector<Trunk> trunks;
  bool gpu_direct = true;  // NICs read and write GPU memory
  // Switches add the data of all nodes (InfiniBand SHARP, SwitchML). In an all-reduce every node
  // then sends and receives each byte once, for any number of nodes (fact H130).
  bool in_network_sums = false;
};

// A scenario's changes to a platform's network; absent = as the platform has it.
struct FabricChange {
  std::optional<double> nic_bytes_per_second;
  std::optional<int> nics_per_node;
  std::optional<double> latency_seconds;
  std::optional<double> oversubscription;
  std::optional<int> nodes_per_leaf;
  std::optional<std::vector<Trunk>> trunks;
  std::optional<bool> in_network_sums;
  bool operator==(const FabricChange&) const = default;
};

// The network with the changes applied.
FabricSpec changed(FabricSpec fabric, const FabricChange& change);

// Whether two trunks join the same two groups of nodes.
bool joined_twice(const std::vector<Trunk>& trunks);

// The first node that a trunk names and that a network of `nodes` nodes lacks; none if all exist.
std::optional<int> unknown_node(const std::vector<Trunk>& trunks, int nodes);

// One measured curve of a collective in nccl-tests' convention (fact 107): a size is the full
// buffer (ranks times the shard for all_gather and reduce_scatter). The curve replaces the model
// for its numbers of ranks and nodes, unless other groups communicate at the same time. Lists have
// one value per size. The lists of CPU measurements may be empty, which means that nothing was
// measured; a 0 in them means that this size was not measured.
struct CollectiveCurve {
  std::string collective;  // "all_reduce", ...: a name of costs/nccl_tuning.hpp
  int ranks = 0;
  int nodes = 1;
  std::vector<double> bytes;    // sizes, ascending
  std::vector<double> seconds;  // durations
  // CPU time of one rank's process during the collective.
  std::vector<double> host_seconds{};
  // Speed of the ranks' compute, and speed of the collective, while both run, relative to each
  // running alone.
  std::vector<double> compute_speed{};
  std::vector<double> speed_beside_compute{};
  // send_recv: time after which the sender is free, while the rest of the message is in buffers.
  std::vector<double> sender_seconds{};
  // send_recv: time if both processes share one core.
  std::vector<double> one_core_seconds{};
  std::string source;
};

// A platform as cost models use it.
struct Machine {
  std::string name;  // file stem, "a100-sxm4-80gb-x4"
  std::string title;
  Device device;
  int gpus_per_node = 1;
  int max_nodes = 1;
  IntraLink intra = IntraLink::nvlink;
  NvlinkSpec nvlink;
  PcieSpec pcie;
  HostSpec host;
  FabricSpec fabric;
  double price_per_gpu_hour = 0;  // USD; 0 = not known
  std::string price_date;         // "2026-11"
  std::string price_source;
  std::vector<CollectiveCurve> collectives;
  std::map<std::string, std::string> sources;  // by field: the origin of its value
};

// Number of GPUs of all nodes.
int max_gpus(const Machine& machine);
// Reads a platform file by name or path, together with its base and its device. Throws ConfigError
// with all mistakes, or, if there is no such platform, with the known names.
Machine load_machine(const std::string& name_or_path);
// Number of nodes that `gpus` GPUs occupy; the last node may not be full.
inline int nodes_of(int gpus, const Machine& machine) {
  return (gpus + machine.gpus_per_node - 1) / machine.gpus_per_node;
}

// Names of the shipped platforms, sorted.
std::vector<std::string> known_machines();

}  // namespace lockstep
