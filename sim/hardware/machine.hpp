// One kind of node and how many of them hang together: what platforms/*.yaml holds. GPU count of a
// scenario fills nodes one after the other.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hardware/device.hpp"

namespace lockstep {

enum class IntraLink {
  none,
  nvlink,
  pcie,
  host
};  // host = through host memory (no peer-to-peer), or loopback
template <>
struct EnumNames<IntraLink> {
  static constexpr std::array names{"none", "nvlink", "pcie", "host"};
};
enum class FabricKind { none, ethernet, roce, efa, infiniband };
template <>
struct EnumNames<FabricKind> {
  static constexpr std::array names{"none", "ethernet", "roce", "efa", "infiniband"};
};
// How the NVLinks of a node's GPUs are wired.
enum class NvlinkLayout {
  switched,   // NVSwitch: any GPU reaches any other with all its links
  mesh,       // point to point, the same number of links between every two GPUs of the node
  cube_mesh,  // eight GPUs as in DGX-1: two quads, one or two links per neighbour
  bridge,     // bridged pairs; further apart the GPUs talk over PCIe
};
template <>
struct EnumNames<NvlinkLayout> {
  static constexpr std::array names{"switched", "mesh", "cube-mesh", "bridge"};
};
enum class CpuVendor { intel, amd, arm };
template <>
struct EnumNames<CpuVendor> {
  static constexpr std::array names{"intel", "amd", "arm"};
};

struct NvlinkSpec {
  int links_per_gpu = 0;        // all links of one GPU
  double bytes_per_second = 0;  // one link, one way, line rate
  NvlinkLayout layout = NvlinkLayout::switched;
  bool multicast = false;  // NVLink SHARP (NVLS) on NVSwitch 3
};

struct PcieSpec {
  int generation = 4;
  int lanes = 16;
  bool peer_to_peer = true;  // false: copies bounce through host memory (g5, consumer cards)
  int gpus_per_switch = 1;   // GPUs that share one uplink to the root complex
  // Bytes/s one way that a GPU reaches to its neighbour through host memory while all GPUs of the
  // node do; 0 = derived from the link. For hosts where it has been measured (virtual machines).
  double host_path_bytes_per_second = 0;
  double scale = 1;  // of what follows from generation and lanes: for what-if questions
};

// All NVMe drives of a node together.
struct NvmeSpec {
  double read_bytes_per_second = 0;  // 0 = the platform says nothing about drives
  double write_bytes_per_second = 0;
  double capacity_bytes = 0;  // 0 = not known
};

struct HostSpec {
  CpuVendor vendor = CpuVendor::amd;
  int sockets = 2;
  int cores = 64;
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s, all sockets
  NvmeSpec nvme{};
  // Host time of one forward operator of eager PyTorch, Python included: the upper end of fact
  // 134's 5 to 25 us. Its other figure agrees: 5 to 10 ms for a ResNet-18 step are 22 to 44 us for
  // each of its 92 forward operators, with 162 backward ones at 0.82. The host of 25 genuine steps
  // took 34 us (calibrate/oracle/gpu/steps.py --hosts). Megatron's rows need 46.8 us, and
  // torchvision's networks took 66 us in PyTorch 1; but FSDP in small steps on one A100
  // (docs/study.md) leaves no room for that.
  double dispatch_seconds = 25e-6;
  double launch_seconds = 3e-6;  // host time of one more kernel launch inside an operator
  // Between processes of one host over the loopback interface, one way, and per message (Gloo on
  // TCP).
  double loopback_bytes_per_second = 1.5e9;
  double message_seconds = 90e-6;
  // Bytes that a process on CPUs sends, while it receives as many, for one second of CPU time; 0 =
  // communication costs no CPU time. Measured curves that know better replace it.
  double core_network_rate = 0;
};

// What joins two groups of nodes beyond their NICs, full duplex; all traffic between them shares it.
struct Trunk {
  std::vector<int> one, other;  // nodes, from 0
  double bytes_per_second = 0;  // line rate, one way
  bool operator==(const Trunk&) const = default;
};

bool is_on(const std::vector<int>& side, int node);  // of a trunk

struct FabricSpec {
  FabricKind kind = FabricKind::none;
  int nics_per_node = 1;
  double nic_bytes_per_second = 0;  // line rate of one NIC, one way
  double latency_seconds = 0;       // MPI-level half round trip (fact 144)
  double efficiency = 0.94;         // payload / line rate (fact 144)
  double oversubscription = 1;      // of the tree above the leaf switches
  int nodes_per_leaf = 0;           // 0 = one non-blocking switch
  std::vector<Trunk> trunks;
  bool gpu_direct = true;  // NIC reads GPU memory
  // Switches add what nodes send them (InfiniBand SHARP, SwitchML): every node sends and receives each byte of an
  // all-reduce once, however many nodes there are (fact H130).
  bool in_network_sums = false;
};

// What differs from a platform's network.
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

FabricSpec changed(FabricSpec fabric, const FabricChange& change);

// Whether two trunks have the very same sides.
bool joined_twice(const std::vector<Trunk>& trunks);

// A node of a trunk that a fabric of so many nodes lacks.
std::optional<int> unknown_node(const std::vector<Trunk>& trunks, int nodes);

// One measured curve of a collective in nccl-tests' convention (fact 107): the size is the full
// buffer (ranks times the shard for all_gather and reduce_scatter). Replaces the model for that
// many ranks.
struct CollectiveCurve {
  std::string collective;  // "all_reduce", ...: a name of costs/nccl_tuning.hpp
  int ranks = 0;
  int nodes = 1;
  std::vector<double> bytes;    // ascending
  std::vector<double> seconds;  // as long as bytes
  // CPU time of one rank's process meanwhile, by size; empty = not measured.
  std::vector<double> host_seconds{};
  // While every rank computes beside it, relative to alone: how fast the ranks compute, and how
  // fast it is itself. By size, 0 = not measured at this one; empty = nowhere.
  std::vector<double> compute_speed{};
  std::vector<double> speed_beside_compute{};
  // send_recv: time after which the sender is free, the rest being in buffers on the way. By size,
  // 0 = not measured at this one; empty = nowhere.
  std::vector<double> sender_seconds{};
  // send_recv: time where both processes have one core. By size, 0 = not measured; empty = nowhere.
  std::vector<double> one_core_seconds{};
  std::string source;
};

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
  double price_per_gpu_hour = 0;  // USD
  std::string price_date;         // "2026-11"
  std::string price_source;
  std::vector<CollectiveCurve> collectives;
  std::map<std::string, std::string> sources;
};

int max_gpus(const Machine& machine);
Machine load_machine(const std::string& name_or_path);  // throws ConfigError with the known names
// Nodes that so many GPUs take; the last one may not be full.
inline int nodes_of(int gpus, const Machine& machine) {
  return (gpus + machine.gpus_per_node - 1) / machine.gpus_per_node;
}

std::vector<std::string> known_machines();

}  // namespace lockstep
