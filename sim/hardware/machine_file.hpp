// The format of platforms/*.yaml, with one declaration per field (core/fields.hpp;
// docs/platform-format.md). Every entry is optional in the format because a `base` may supply it;
// load_machine() checks the platform that results.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

// The price of one GPU for one hour, with its date and its source.
struct PriceFile {
  double per_gpu_hour = 0;
  std::string date;
  std::string source;
};

// A platform file as written; absent or empty = taken from the base. An entry is taken as a whole;
// only `sources` is merged field by field.
struct MachineFile {
  std::string base;
  std::optional<std::string> title;
  std::optional<std::string> device;
  std::optional<int> gpus_per_node;
  std::optional<int> max_nodes;
  std::optional<IntraLink> interconnect;
  std::optional<NvlinkSpec> nvlink;
  std::optional<PcieSpec> pcie;
  std::optional<HostSpec> host;
  std::optional<FabricSpec> fabric;
  std::optional<PriceFile> price;
  std::vector<CollectiveCurve> collectives;
  std::map<std::string, std::string> sources;
};

template <class Visitor>
void describe(Visitor& v, NvlinkSpec& n) {
  v.field("links_per_gpu", n.links_per_gpu, "All NVLinks of one GPU.",
          {.min = 1, .max = 64, .required = true});
  v.field("link_rate", n.bytes_per_second, "One link, one way, line rate.",
          {.unit = Dimension::bytes_per_second, .min = 1e6, .max = 1e13, .required = true});
  v.field("layout", n.layout,
          "switched: NVSwitch. mesh: the same number of links between every two GPUs. cube-mesh: "
          "DGX-1. bridge: bridged pairs, PCIe beyond.");
  v.field("multicast", n.multicast, "NVLink SHARP: the switch reduces.");
}

template <class Visitor>
void describe(Visitor& v, PcieSpec& p) {
  v.field("generation", p.generation, "3, 4 or 5.", {.min = 3, .max = 6});
  v.field("lanes", p.lanes, "Lanes of one GPU.", {.min = 1, .max = 32});
  v.field("peer_to_peer", p.peer_to_peer,
          "May GPUs reach each other's memory? If not, copies go through host memory.");
  v.field("gpus_per_switch", p.gpus_per_switch, "GPUs that share one uplink to the root complex.",
          {.min = 1, .max = 64});
  v.field("host_path", p.host_path_bytes_per_second,
          "Measured rate of one GPU to its neighbour through host memory while all GPUs of the "
          "node do so; left out = derived from the link.",
          {.unit = Dimension::bytes_per_second, .min = 0, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, NvmeSpec& n) {
  const FieldSpec rate{.unit = Dimension::bytes_per_second, .min = 0, .max = 1e13};
  v.field("read", n.read_bytes_per_second, "Sequential reads of all drives of a node.", rate);
  v.field("write", n.write_bytes_per_second, "Sequential writes of all drives of a node.", rate);
  v.field("capacity", n.capacity_bytes, "Capacity of all drives of a node.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e17});
  v.check([&](auto report) {
    if ((n.read_bytes_per_second > 0) == (n.write_bytes_per_second > 0)) return;
    report(n.read_bytes_per_second > 0 ? "write" : "read", "is missing or 0, and the other is not",
           "rates of both");
  });
}

template <class Visitor>
void describe(Visitor& v, HostSpec& h) {
  v.field("vendor", h.vendor, "CPU vendor; NCCL chooses PCIe paths by it.");
  v.field("sockets", h.sockets, "CPU sockets.", {.min = 1, .max = 64});
  v.field("cores", h.cores, "Physical cores of the node.", {.min = 1, .max = 4096});
  v.field("memory", h.memory_bytes, "Host memory of the node.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e15});
  v.field("memory_bandwidth", h.memory_bandwidth, "Memory bandwidth of all sockets together.",
          {.unit = Dimension::bytes_per_second, .min = 0, .max = 1e14});
  v.field("nvme", h.nvme, "NVMe drives for offloaded state; absent = the node has none.");
  v.field("dispatch", h.dispatch_seconds, "Host time of one eager framework operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("launch", h.launch_seconds, "Host time of one more kernel launch inside an operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("loopback", h.loopback_bytes_per_second,
          "Rate between two processes over the loopback interface, one way.",
          {.unit = Dimension::bytes_per_second, .min = 1e3, .max = 1e12});
  v.field("message", h.message_seconds, "Time of one message between processes beyond its bytes.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("core_network_rate", h.core_network_rate,
          "Where ranks compute on CPUs: bytes a process sends, while it receives as many, for one "
          "second of CPU time; 0 = communication takes no CPU time.",
          {.unit = Dimension::bytes_per_second, .min = 0, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, Trunk& t) {
  v.field("between", t.one, "Nodes of one side, from 0.",
          {.min = 0, .max = 100000, .required = true, .min_items = 1});
  v.field("and", t.other, "Nodes of the other side.",
          {.min = 0, .max = 100000, .required = true, .min_items = 1});
  v.field("rate", t.bytes_per_second, "Line rate, each way.",
          {.unit = Dimension::bytes_per_second, .min = 1e3, .max = 1e14, .required = true});
  v.check([&](auto report) {
    for (const int node : t.one) {
      if (std::find(t.other.begin(), t.other.end(), node) == t.other.end()) continue;
      report("and", fmt::format("node {} is on both sides", node), "a node of one side or of none");
      return;
    }
  });
}

// The trunks of a network; for a change of one, the trunks that the change names.
inline const std::vector<Trunk>& trunks_of(const FabricSpec& f) {
  return f.trunks;
}
inline const std::vector<Trunk>& trunks_of(const FabricChange& f) {
  static const std::vector<Trunk> none;
  return f.trunks ? *f.trunks : none;
}

// The fields that a FabricSpec has and a FabricChange may change.
template <class Visitor, class Fabric>
void describe_network(Visitor& v, Fabric& f) {
  v.field("nics_per_node", f.nics_per_node, "NICs for training traffic.", {.min = 1, .max = 128});
  v.field("nic_rate", f.nic_bytes_per_second, "Line rate of one NIC, one way.",
          {.unit = Dimension::bytes_per_second, .min = 1e3, .max = 1e13});
  v.field("latency", f.latency_seconds, "Half a round trip as MPI sees it.",
          {.unit = Dimension::seconds, .min = 0, .max = 10});
  v.field("oversubscription", f.oversubscription,
          "Oversubscription of the tree above the leaf switches; 2 = half the bandwidth.",
          {.min = 1, .max = 1000});
  v.field("nodes_per_leaf", f.nodes_per_leaf,
          "Nodes under one leaf switch; 0 = one non-blocking switch.", {.min = 0, .max = 100000});
  v.field("in_network_sums", f.in_network_sums,
          "Switches sum all-reduces between nodes (InfiniBand SHARP, SwitchML).");
  v.field("trunks", f.trunks,
          "Links between groups of nodes, each shared by all traffic between its two sides.");
  v.check([&](auto report) {
    if (joined_twice(trunks_of(f))) {
      report("trunks", "names a trunk between the same nodes twice", "one, with the rate of both");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, FabricChange& f) {
  describe_network(v, f);
}

template <class Visitor>
void describe(Visitor& v, FabricSpec& f) {
  v.field("kind", f.kind, "Network between nodes.", {.required = true});
  describe_network(v, f);
  v.field("efficiency", f.efficiency, "Payload share of the line rate.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1});
  v.field("gpu_direct", f.gpu_direct, "Do NICs read and write GPU memory?");
}

template <class Visitor>
void describe(Visitor& v, PriceFile& p) {
  v.field("per_gpu_hour", p.per_gpu_hour, "Price of one GPU for one hour.",
          {.unit = Dimension::dollars_per_hour, .min = 0, .max = 1e6, .required = true});
  v.field("date", p.date, "Date of the price, for example 2024-11.", {.required = true});
  v.field("source", p.source, "Provider of the price.", {.required = true});
}

template <class Visitor>
void describe(Visitor& v, CollectiveCurve& c) {
  v.field("collective", c.collective,
          "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all or send_recv.",
          {.required = true});
  v.field("ranks", c.ranks, "GPUs that took part.", {.min = 2, .max = 1e6, .required = true});
  v.field("nodes", c.nodes, "Nodes they stood in.", {.min = 1, .max = 1e6});
  v.field("bytes", c.bytes, "Full sizes as nccl-tests counts them, ascending.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e15, .required = true, .min_items = 1});
  v.field("times", c.seconds, "Measured times, one per size.",
          {.unit = Dimension::seconds, .min = 1e-9, .max = 1e6, .required = true, .min_items = 1});
  v.field("source", c.source, "Source of the curve.");
}

template <class Visitor>
void describe(Visitor& v, MachineFile& m) {
  v.field("base", m.base,
          "Another platform: every top-level entry left out here is taken from it.");
  v.field("title", m.title, "Name for people.");
  v.field("device", m.device, "A name from platforms/devices.");
  v.field("gpus_per_node", m.gpus_per_node, "GPUs of one node.", {.min = 1, .max = 1024});
  v.field("max_nodes", m.max_nodes, "Nodes that can be used together.", {.min = 1, .max = 100000});
  v.field(
      "interconnect", m.interconnect,
      "Connection between the GPUs of a node: nvlink, pcie, host (through host memory) or none.");
  v.field("nvlink", m.nvlink, "Needed with `interconnect: nvlink`.");
  v.field("pcie", m.pcie, "Connection between GPU and host.");
  v.field("host", m.host, "The node's host.");
  v.field("fabric", m.fabric, "Network between nodes; left out = a single node.");
  v.field("price", m.price, "Left out = unknown; a scenario can set it.");
  v.field("collectives", m.collectives,
          "Measured curves: they replace the model for that many ranks and nodes.",
          {.max_items = 1000});
  v.field("sources", m.sources, "Field: where its figure comes from.");
}

}  // namespace lockstep
