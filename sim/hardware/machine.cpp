// Reads platform files into Machines. A file may name a `base`, whose entries it inherits; its
// device is described by another file. Each field is checked by its declaration, and then the
// complete platform is checked for links, nodes and trunks that do not fit together.
#include "hardware/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/data.hpp"
#include "core/describe.hpp"
#include "hardware/machine_file.hpp"

namespace lockstep {
namespace {

// The most files in a chain of bases. A chain that exceeds it is most likely a circle.
constexpr int longest_chain = 8;

template <class T>
void inherit(std::optional<T>& own, const std::optional<T>& base) {
  if (!own) own = base;
}

// Fills the entries that `own` leaves out from `base`. An entry is inherited as a whole: a file
// with a `pcie:` of its own inherits nothing of its base's `pcie:`. Only `sources` is merged field
// by field.
void inherit_all(MachineFile& own, const MachineFile& base) {
  inherit(own.title, base.title);
  inherit(own.device, base.device);
  inherit(own.gpus_per_node, base.gpus_per_node);
  inherit(own.max_nodes, base.max_nodes);
  inherit(own.interconnect, base.interconnect);
  inherit(own.nvlink, base.nvlink);
  inherit(own.pcie, base.pcie);
  inherit(own.host, base.host);
  inherit(own.fabric, base.fabric);
  inherit(own.price, base.price);
  if (own.collectives.empty()) own.collectives = base.collectives;
  for (const auto& [field, source] : base.sources) own.sources.emplace(field, source);
}

// Runs `load`. A ConfigError without a place in a file becomes a mistake at the value of `key`.
template <class Load>
auto at_node(const Node& document, const char* key, Load load) {
  try {
    return load();
  } catch (const ConfigError& error) {
    const auto node = document.find(key);
    // Mistakes inside of the named file already have places.
    if (!node || error.diagnostics().size() != 1 || error.diagnostics().front().where.line != 0)
      throw;
    const Diagnostic& plain = error.diagnostics().front();
    const bool named = plain.message.find(in_quotes(node->scalar())) != std::string::npos;
    throw ConfigError(node->error(
        named ? plain.message : fmt::format("{} {}", in_quotes(node->scalar()), plain.message),
        plain.hint));
  }
}

// A platform file with its bases merged, and the documents to which mistakes refer.
struct Loaded {
  MachineFile file;
  Node document;  // of the file itself
  // Document of the file that names the device. A path to a device is relative to that file.
  Node device_origin;
};

// Reads a file and, recursively, its bases. `depth` counts the files before it.
Loaded load_chain(const std::string& path, int depth) {
  Loaded loaded;
  loaded.document = Node::parse_file(path);
  Diagnostics diagnostics;
  loaded.file = read<MachineFile>(loaded.document, diagnostics);
  diagnostics.throw_if_any();
  loaded.device_origin = loaded.document;
  if (loaded.file.base.empty()) return loaded;
  if (depth >= longest_chain)
    throw ConfigError(loaded.document.find("base")->error(
        "platforms are based on each other in a circle, or more than 8 deep"));
  const std::string base_path = at_node(loaded.document, "base", [&] {
    return locate_file(seen_from(path, loaded.file.base), "platforms", "platform");
  });
  const Loaded base =
      at_node(loaded.document, "base", [&] { return load_chain(base_path, depth + 1); });
  if (!loaded.file.device) loaded.device_origin = base.device_origin;
  inherit_all(loaded.file, base.file);
  return loaded;
}

// Adds mistakes that concern more than one field, in the platform with its bases merged.
void check(const MachineFile& file, const Node& document, Diagnostics& diagnostics) {
  const auto missing = [&](bool present, const char* field, const char* why) {
    if (!present) diagnostics.add(document.error(fmt::format("'{}' is missing{}", field, why)));
  };
  missing(file.title.has_value(), "title", "");
  missing(file.device.has_value(), "device", "");
  missing(file.interconnect != IntraLink::nvlink || file.nvlink.has_value(), "nvlink",
          ": interconnect is nvlink");
  const int gpus = file.gpus_per_node.value_or(1);
  // Reports a mistake at a field of the file, or at the whole file if the field comes from a base.
  const auto say = [&](const char* field, const std::string& message) {
    const auto node = document.find(field);
    diagnostics.add((node ? *node : document).error(message));
  };
  if (gpus > 1 && file.interconnect.value_or(IntraLink::none) == IntraLink::none)
    say("interconnect", fmt::format("{} GPUs in a node need a link between them", gpus));
  const bool has_fabric = file.fabric && file.fabric->kind != FabricKind::none;
  if (file.max_nodes.value_or(1) > 1 && !has_fabric)
    say("max_nodes", "several nodes need a 'fabric'");
  if (has_fabric && file.fabric->nic_bytes_per_second <= 0) say("fabric", "'nic_rate' is missing");
  const int nodes = file.max_nodes.value_or(1);
  if (const auto node = has_fabric ? unknown_node(file.fabric->trunks, nodes) : std::nullopt)
    say("fabric", fmt::format("a trunk names node {}, and nodes are 0 to {}", *node, nodes - 1));
  for (std::size_t i = 0; i < file.collectives.size(); ++i) {
    const CollectiveCurve& curve = file.collectives[i];
    const bool ascending = std::adjacent_find(curve.bytes.begin(), curve.bytes.end(),
                                              std::greater_equal<>()) == curve.bytes.end();
    if (curve.bytes.size() != curve.seconds.size())
      say("collectives", fmt::format("curve {}: {} sizes but {} times", i + 1, curve.bytes.size(),
                                     curve.seconds.size()));
    else if (!ascending)
      say("collectives", fmt::format("curve {}: sizes must ascend", i + 1));
  }
}

}  // namespace

FabricSpec changed(FabricSpec fabric, const FabricChange& change) {
  const auto set = [](auto& value, const auto& new_value) { value = new_value.value_or(value); };
  set(fabric.nic_bytes_per_second, change.nic_bytes_per_second);
  set(fabric.nics_per_node, change.nics_per_node);
  set(fabric.latency_seconds, change.latency_seconds);
  set(fabric.oversubscription, change.oversubscription);
  set(fabric.nodes_per_leaf, change.nodes_per_leaf);
  set(fabric.trunks, change.trunks);
  set(fabric.in_network_sums, change.in_network_sums);
  return fabric;
}

bool is_on(const std::vector<int>& side, int node) {
  return std::find(side.begin(), side.end(), node) != side.end();
}

// Neither the order of the sides nor the order of nodes in a side matters.
bool joined_twice(const std::vector<Trunk>& trunks) {
  using Side = std::set<int>;
  std::set<std::pair<Side, Side>> known;
  for (const Trunk& trunk : trunks) {
    const Side first_side(trunk.one.begin(), trunk.one.end()),
        other(trunk.other.begin(), trunk.other.end());
    if (!known.insert(std::minmax(first_side, other)).second) return true;
  }
  return false;
}

std::optional<int> unknown_node(const std::vector<Trunk>& trunks, int nodes) {
  for (const Trunk& trunk : trunks) {
    for (const auto* side : {&trunk.one, &trunk.other}) {
      const auto found =
          std::find_if(side->begin(), side->end(), [&](int node) { return node >= nodes; });
      if (found != side->end()) return *found;
    }
  }
  return std::nullopt;
}

int max_gpus(const Machine& machine) {
  return machine.gpus_per_node * machine.max_nodes;
}

Machine load_machine(const std::string& name_or_path) {
  const std::string path = locate_file(name_or_path, "platforms", "platform");
  const Loaded loaded = load_chain(path, 0);
  const MachineFile& file = loaded.file;
  Diagnostics diagnostics;
  check(file, loaded.document, diagnostics);
  diagnostics.throw_if_any();

  Machine machine;
  machine.name = stem_of(path);
  machine.title = *file.title;
  const std::string device = seen_from(loaded.device_origin.where().file, *file.device);
  machine.device = at_node(loaded.device_origin, "device", [&] { return load_device(device); });
  machine.gpus_per_node = file.gpus_per_node.value_or(1);
  machine.max_nodes = file.max_nodes.value_or(1);
  machine.intra = file.interconnect.value_or(IntraLink::none);
  machine.nvlink = file.nvlink.value_or(NvlinkSpec{});
  machine.pcie = file.pcie.value_or(PcieSpec{});
  machine.host = file.host.value_or(HostSpec{});
  machine.fabric = file.fabric.value_or(FabricSpec{});
  if (file.price) {
    machine.price_per_gpu_hour = file.price->per_gpu_hour;
    machine.price_date = file.price->date;
    machine.price_source = file.price->source;
  }
  machine.collectives = file.collectives;
  machine.sources = file.sources;
  return machine;
}

std::vector<std::string> known_machines() {
  return stems_in(data_folder("platforms"), ".yaml");
}

}  // namespace lockstep
