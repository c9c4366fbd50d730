// The format of platforms/*.yaml: one declaration per field, see docs/platform-format.md.
// Everything is optional here because `base` may supply it; load_machine checks the result.
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

struct PriceFile {
  double per_gpu_hour = 0;
  std::string date;
  std::string source;
};

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
  v.field({.name = "links_per_gpu",
           .doc = "All NVLinks of one GPU.",
           .min = 1,
           .max = 64,
           .required = true},
          n.links_per_gpu);
  v.field({.name = "link_rate",
           .doc = "One link, one way, line rate.",
           .unit = Dimension::bytes_per_second,
           .min = 1e6,
           .max = 1e13,
           .required = true},
          n.bytes_per_second);
  v.field({.name = "layout",
           .doc = "switched: NVSwitch. mesh: the same number of links between every two GPUs. "
                  "cube-mesh: DGX-1. bridge: bridged pairs, PCIe beyond."},
          n.layout);
  v.field({.name = "multicast", .doc = "NVLink SHARP: the switch reduces."}, n.multicast);
}

template <class Visitor>
void describe(Visitor& v, PcieSpec& p) {
  v.field({.name = "generation", .doc = "3, 4 or 5.", .min = 3, .max = 6}, p.generation);
  v.field({.name = "lanes", .doc = "Lanes of one GPU.", .min = 1, .max = 32}, p.lanes);
  v.field({.name = "peer_to_peer",
           .doc = "May GPUs reach each other's memory? If not, copies go through host memory."},
          p.peer_to_peer);
  v.field({.name = "gpus_per_switch",
           .doc = "GPUs that share one uplink to the root complex.",
           .min = 1,
           .max = 64},
          p.gpus_per_switch);
  v.field({.name = "host_path",
           .doc = "Measured rate of one GPU to its neighbour through host memory while all GPUs of "
                  "the node do so; left out = derived from the link.",
           .unit = Dimension::bytes_per_second,
           .min = 0,
           .max = 1e12},
          p.host_path_bytes_per_second);
}

template <class Visitor>
void describe(Visitor& v, HostSpec& h) {
  v.field({.name = "vendor", .doc = "CPU vendor: decides what PCIe paths NCCL uses."}, h.vendor);
  v.field({.name = "sockets", .doc = "CPU sockets.", .min = 1, .max = 16}, h.sockets);
  v.field({.name = "cores", .doc = "Physical cores of the node.", .min = 1, .max = 4096}, h.cores);
  v.field({.name = "memory",
           .doc = "Host memory of the node.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 1e15},
          h.memory_bytes);
  v.field({.name = "memory_bandwidth",
           .doc = "Of all sockets.",
           .unit = Dimension::bytes_per_second,
           .min = 0,
           .max = 1e14},
          h.memory_bandwidth);
  v.field({.name = "dispatch",
           .doc = "Host time of one eager framework operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          h.dispatch_seconds);
  v.field({.name = "launch",
           .doc = "Host time of one more kernel launch inside an operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          h.launch_seconds);
  v.field({.name = "loopback",
           .doc = "Between two processes over the loopback interface, one way.",
           .unit = Dimension::bytes_per_second,
           .min = 1e3,
           .max = 1e12},
          h.loopback_bytes_per_second);
  v.field({.name = "message",
           .doc = "Time of one message between processes beyond its bytes.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          h.message_seconds);
  v.field({.name = "core_network_rate",
           .doc = "Where ranks compute on CPUs: bytes a process sends, while it receives as many, "
                  "for one second of CPU time; 0 = communication takes no CPU time.",
           .unit = Dimension::bytes_per_second,
           .min = 0,
           .max = 1e12},
          h.core_network_rate);
}

template <class Visitor>
void describe(Visitor& v, Trunk& t) {
  v.field({.name = "between",
           .doc = "Nodes of one side, from 0.",
           .min = 0,
           .max = 100000,
           .required = true,
           .min_items = 1},
          t.one);
  v.field({.name = "and",
           .doc = "Nodes of the other side.",
           .min = 0,
           .max = 100000,
           .required = true,
           .min_items = 1},
          t.other);
  v.field({.name = "rate",
           .doc = "Line rate, each way.",
           .unit = Dimension::bytes_per_second,
           .min = 1e3,
           .max = 1e14,
           .required = true},
          t.bytes_per_second);
  v.check([&](auto report) {
    for (const int node : t.one) {
      if (std::find(t.other.begin(), t.other.end(), node) == t.other.end()) continue;
      report("and", fmt::format("node {} is on both sides", node), "a node of one side or of none");
      return;
    }
  });
}

inline const std::vector<Trunk>& trunks_of(const FabricSpec& f) {
  return f.trunks;
}
inline const std::vector<Trunk>& trunks_of(const FabricChange& f) {
  static const std::vector<Trunk> none;
  return f.trunks ? *f.trunks : none;
}

// Of a FabricSpec, or of a FabricChange, where each may be left out.
template <class Visitor, class Fabric>
void describe_network(Visitor& v, Fabric& f) {
  v.field({.name = "nics_per_node", .doc = "NICs for training traffic.", .min = 1, .max = 64},
          f.nics_per_node);
  v.field({.name = "nic_rate",
           .doc = "Line rate of one NIC, one way.",
           .unit = Dimension::bytes_per_second,
           .min = 1e3,
           .max = 1e13},
          f.nic_bytes_per_second);
  v.field({.name = "latency",
           .doc = "Half a round trip as MPI sees it.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 10},
          f.latency_seconds);
  v.field({.name = "oversubscription",
           .doc = "Of the tree above the leaf switches: 2 = half the bandwidth.",
           .min = 1,
           .max = 1000},
          f.oversubscription);
  v.field({.name = "nodes_per_leaf",
           .doc = "Nodes under one leaf switch; 0 = one non-blocking switch.",
           .min = 0,
           .max = 100000},
          f.nodes_per_leaf);
  v.field(
      {.name = "trunks",
       .doc = "Links between groups of nodes, each shared by all traffic between its two sides."},
      f.trunks);
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
  v.field({.name = "kind", .doc = "Network between nodes.", .required = true}, f.kind);
  describe_network(v, f);
  v.field({.name = "efficiency",
           .doc = "Payload share of the line rate.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1},
          f.efficiency);
  v.field({.name = "gpu_direct", .doc = "Do NICs read and write GPU memory?"}, f.gpu_direct);
}

template <class Visitor>
void describe(Visitor& v, PriceFile& p) {
  v.field({.name = "per_gpu_hour",
           .doc = "What one GPU costs for one hour.",
           .unit = Dimension::dollars_per_hour,
           .min = 0,
           .max = 1e6,
           .required = true},
          p.per_gpu_hour);
  v.field({.name = "date", .doc = "When it was the price: 2024-11.", .required = true}, p.date);
  v.field({.name = "source", .doc = "Whose price.", .required = true}, p.source);
}

template <class Visitor>
void describe(Visitor& v, CollectiveCurve& c) {
  v.field(
      {.name = "collective",
       .doc = "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all or send_recv.",
       .required = true},
      c.collective);
  v.field({.name = "ranks", .doc = "GPUs that took part.", .min = 2, .max = 1e6, .required = true},
          c.ranks);
  v.field({.name = "nodes", .doc = "Nodes they stood in.", .min = 1, .max = 1e6}, c.nodes);
  v.field({.name = "bytes",
           .doc = "Full sizes as nccl-tests counts them, ascending.",
           .unit = Dimension::bytes,
           .min = 1,
           .max = 1e15,
           .required = true,
           .min_items = 1},
          c.bytes);
  v.field({.name = "times",
           .doc = "Measured times, one per size.",
           .unit = Dimension::seconds,
           .min = 1e-9,
           .max = 1e6,
           .required = true,
           .min_items = 1},
          c.seconds);
  v.field({.name = "source", .doc = "Where they come from."}, c.source);
}

template <class Visitor>
void describe(Visitor& v, MachineFile& m) {
  v.field({.name = "base",
           .doc = "Another platform: every top-level entry left out here is taken from it."},
          m.base);
  v.field({.name = "title", .doc = "Name for people."}, m.title);
  v.field({.name = "device", .doc = "A name from platforms/devices."}, m.device);
  v.field({.name = "gpus_per_node", .doc = "GPUs of one node.", .min = 1, .max = 1024},
          m.gpus_per_node);
  v.field({.name = "max_nodes", .doc = "Nodes that can be used together.", .min = 1, .max = 100000},
          m.max_nodes);
  v.field({.name = "interconnect",
           .doc = "Between the GPUs of a node: nvlink, pcie, host (through host memory) or none."},
          m.interconnect);
  v.field({.name = "nvlink", .doc = "Needed with `interconnect: nvlink`."}, m.nvlink);
  v.field({.name = "pcie", .doc = "Between GPU and host."}, m.pcie);
  v.field({.name = "host", .doc = "The node's host."}, m.host);
  v.field({.name = "fabric", .doc = "Between nodes; left out = a single node."}, m.fabric);
  v.field({.name = "price", .doc = "Left out = unknown; a scenario can set it."}, m.price);
  v.field({.name = "collectives",
           .doc = "Measured curves: they replace the model for that many ranks and nodes.",
           .max_items = 1000},
          m.collectives);
  v.field({.name = "sources", .doc = "Field: where its figure comes from."}, m.sources);
}

}  // namespace lockstep
