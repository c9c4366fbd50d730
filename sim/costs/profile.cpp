// Reading and writing profiles (see profile.hpp).
#include "costs/profile.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>

#include "core/describe.hpp"
#include "core/errors.hpp"
#include "costs/nccl_tuning.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, ProfileVersion& p) {
  v.field({.name = "name", .doc = "Component.", .required = true}, p.name);
  v.field({.name = "version", .doc = "Version as the component states it.", .required = true},
          p.version);
}

template <class Visitor>
void describe(Visitor& v, ProfileSetting& p) {
  v.field({.name = "name", .doc = "Setting that influences the figures.", .required = true},
          p.name);
  v.field({.name = "value", .doc = "Its value while measuring.", .required = true}, p.value);
}

template <class Visitor>
void describe(Visitor& v, ProfileNoise& p) {
  v.field({.name = "samples", .doc = "Repetitions behind every figure.", .min = 0}, p.samples);
  v.field({.name = "relative_spread",
           .doc = "Median over the figures of (90th percentile - median) / median.",
           .unit = Dimension::fraction,
           .min = 0,  // without an upper limit: a busy machine must not cost the whole profile
           .max = 1e9},
          p.relative_spread);
}

template <class Visitor>
void describe(Visitor& v, ProfileHost& p) {
  v.field({.name = "operator",
           .doc = "Host time to dispatch one forward operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          p.operator_seconds);
  v.field({.name = "backward_operator",
           .doc = "Host time to dispatch one backward operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          p.backward_operator_seconds);
  v.field({.name = "update_operator",
           .doc = "Host time of one operator of an update in a loop over tensors; 0 = operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          p.update_operator_seconds);
  v.field({.name = "launch",
           .doc = "Host time of each further launch inside an operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          p.launch_seconds);
}

template <class Visitor>
void describe_iqr(Visitor& v, const char* name, const char* doc, double& iqr) {
  v.field({.name = name, .doc = doc, .unit = Dimension::fraction, .min = 0, .max = 1e9}, iqr);
}

template <class Visitor>
void describe(Visitor& v, ProfileLayer& p) {
  v.field({.name = "name", .doc = "Layer, as named by the model.", .required = true}, p.name);
  v.field({.name = "forward",
           .doc = "Median device time forward.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e4,
           .required = true},
          p.forward_seconds);
  v.field({.name = "backward",
           .doc = "Median device time backward; left out = not measured.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e4},
          p.backward_seconds);
  describe_iqr(v, "forward_iqr", "Interquartile range / median of forward; 0 = not noted.",
               p.forward_iqr);
  describe_iqr(v, "backward_iqr", "Interquartile range / median of backward; 0 = not noted.",
               p.backward_iqr);
  v.field({.name = "forward_workspace",
           .doc = "Largest block of memory that came and went meanwhile, forward; left out = not "
                  "measured.",
           .unit = Dimension::bytes,
           .min = 0},
          p.forward_workspace);
  v.field({.name = "backward_workspace",
           .doc = "The same, backward.",
           .unit = Dimension::bytes,
           .min = 0},
          p.backward_workspace);
}

template <class Visitor>
void describe(Visitor& v, ProfileMemory& p) {
  const auto bytes = [&v](const char* name, const char* doc, double& value) {
    v.field({.name = name, .doc = doc, .unit = Dimension::bytes, .min = 0}, value);
  };
  bytes("parameters", "Parameters.", p.parameters);
  bytes("buffers", "Running statistics and the like.", p.buffers);
  bytes("optimizer_state", "Momenta.", p.optimizer_state);
  bytes("saved_activations", "Live after forward beyond these and the batch.", p.saved_activations);
  bytes("peak", "Most that was live at once, of everything.", p.peak);
  bytes("reserved", "By the caching allocator at most; 0 on CPUs.", p.reserved);
  bytes("kept",
        "What libraries kept between two steps, for people: allocator.kept is the median of those "
        "that have it.",
        p.kept);
}

template <class Visitor>
void describe(Visitor& v, ProfileBatch& p) {
  v.field({.name = "samples", .doc = "Batch.", .min = 1, .required = true}, p.samples);
  v.field({.name = "step_sigma",
           .doc = "Standard deviation of the logarithm of the whole step from one to the next.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 5},
          p.step_sigma);
  v.field({.name = "step_factors",
           .doc = "Single steps over the median of their neighbours, interruptions included.",
           .min = 1e-3,
           .max = 1e6},
          p.step_factors);
  v.field({.name = "operator",
           .doc = "Host time of one forward operator of this model and batch; 0 = host.operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          p.operator_seconds);
  v.field({.name = "backward_operator",
           .doc = "Host time of one of its backward operators; 0 = host.backward_operator.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1},
          p.backward_operator_seconds);
  v.field(
      {.name = "update_operator",
       .doc = "Host time of one operator of its update, for people: host.update_operator is the "
              "median of these.",
       .unit = Dimension::seconds,
       .min = 0,
       .max = 1},
      p.update_operator_seconds);
  v.field({.name = "layers", .doc = "Times in forward order.", .required = true}, p.layers);
  v.field({.name = "memory", .doc = "Tensors of one step."}, p.memory);
}

template <class Visitor>
void describe(Visitor& v, ProfileModel& p) {
  v.field({.name = "model", .doc = "Model file.", .required = true}, p.model);
  v.field({.name = "precision", .doc = "Numeric mode.", .required = true}, p.precision);
  v.field({.name = "input_bytes_per_sample",
           .doc = "Bytes copied to the device per sample; tells input sizes apart.",
           .unit = Dimension::bytes,
           .min = 0,
           .required = true},
          p.input_bytes_per_sample);
  v.field({.name = "batches", .doc = "Measured batches, ascending.", .required = true}, p.batches);
}

template <class Visitor>
void describe(Visitor& v, ProfileOptimizer& p) {
  v.field({.name = "name", .doc = "Update rule.", .required = true}, p.name);
  v.field({.name = "implementation", .doc = "As in a scenario's optimizer."}, p.implementation);
  v.field({.name = "momentum", .doc = "sgd: whether momentum is kept."}, p.momentum);
  v.field({.name = "precision", .doc = "Numeric mode."}, p.precision);
  v.field({.name = "elements",
           .doc = "Parameters updated.",
           .unit = Dimension::count,
           .min = 1,
           .required = true},
          p.elements);
  v.field({.name = "tensors", .doc = "Tensors they lie in.", .min = 1}, p.tensors);
  v.field({.name = "time",
           .doc = "Median device time.",
           .unit = Dimension::seconds,
           .min = 0,
           .required = true},
          p.seconds);
  describe_iqr(v, "iqr", "Interquartile range / median of the time; 0 = not noted.", p.iqr);
}

template <class Visitor>
void describe(Visitor& v, ProfileCopy& p) {
  v.field({.name = "bytes",
           .doc = "Bytes read + written.",
           .unit = Dimension::bytes,
           .min = 1,
           .required = true},
          p.bytes);
  v.field({.name = "time",
           .doc = "Median device time.",
           .unit = Dimension::seconds,
           .min = 0,
           .required = true},
          p.seconds);
  describe_iqr(v, "iqr", "Interquartile range / median of the time; 0 = not noted.", p.iqr);
}

template <class Visitor>
void describe(Visitor& v, ProfileCurvePoint& p) {
  v.field({.name = "bytes",
           .doc = "Size as nccl-tests counts it.",
           .unit = Dimension::bytes,
           .min = 1,
           .required = true},
          p.bytes);
  v.field({.name = "time",
           .doc = "Median time.",
           .unit = Dimension::seconds,
           .min = 1e-9,
           .required = true},
          p.seconds);
  v.field({.name = "host",
           .doc = "CPU time of one rank's process meanwhile, all its threads; 0 = not measured.",
           .unit = Dimension::seconds,
           .min = 0},
          p.host_seconds);
  v.field({.name = "compute_speed",
           .doc = "How fast every rank computes beside it, relative to alone; 0 = not measured.",
           .min = 0,
           .max = 1},
          p.compute_speed);
  v.field({.name = "speed_beside_compute",
           .doc = "How fast it is itself then, relative to alone; 0 = not measured.",
           .min = 0,
           .max = 1},
          p.speed_beside_compute);
  v.field(
      {.name = "sender",
       .doc = "send_recv: time after which the sender is free, the rest of the message being in "
              "buffers on the way; 0 = not measured.",
       .unit = Dimension::seconds,
       .min = 0},
      p.sender_seconds);
  v.field({.name = "one_core",
           .doc = "send_recv: time where both processes have one core; 0 = not measured.",
           .unit = Dimension::seconds,
           .min = 0},
          p.one_core_seconds);
}

template <class Visitor>
void describe(Visitor& v, ProfileCollective& p) {
  v.field({.name = "collective",
           .doc = "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all or "
                  "send_recv (one message from one rank to another).",
           .required = true},
          p.collective);
  v.field({.name = "backend", .doc = "Library that ran it.", .required = true}, p.backend);
  v.field({.name = "ranks", .doc = "Processes.", .min = 1, .required = true}, p.ranks);
  v.field({.name = "nodes", .doc = "Nodes they ran on.", .min = 1}, p.nodes);
  v.field({.name = "points", .doc = "The curve, ascending.", .required = true, .min_items = 1},
          p.points);
}

template <class Visitor>
void describe(Visitor& v, ProfileAllocator& p) {
  v.field({.name = "context",
           .doc = "Device memory in use before the first tensor.",
           .unit = Dimension::bytes,
           .min = 0},
          p.context_bytes);
  v.field({.name = "matmul_workspace",
           .doc = "Workspace of one matrix library handle.",
           .unit = Dimension::bytes,
           .min = 0},
          p.matmul_workspace_bytes);
  v.field(
      {.name = "kept",
       .doc = "What libraries keep between two steps, beside parameters, buffers, state and the "
              "batch; 0 = not measured.",
       .unit = Dimension::bytes,
       .min = 0},
      p.kept_bytes);
}

template <class Visitor>
void describe(Visitor& v, Profile& p) {
  v.field(
      {.name = "format", .doc = "Version of this format.", .min = 1, .max = 1, .required = true},
      p.format);
  v.field({.name = "device", .doc = "Device file the figures belong to.", .required = true},
          p.device);
  v.field({.name = "date", .doc = "Day of the measurement, 2026-11-21."}, p.date);
  v.field({.name = "versions", .doc = "Software under test."}, p.versions);
  v.field({.name = "settings", .doc = "Settings under test."}, p.settings);
  v.field({.name = "noise", .doc = "How repeatable the figures are."}, p.noise);
  v.field({.name = "host", .doc = "Dispatch costs."}, p.host);
  v.field({.name = "allocator", .doc = "Memory facts."}, p.allocator);
  v.field({.name = "models", .doc = "Layer times."}, p.models);
  v.field({.name = "optimizers", .doc = "Optimizer steps."}, p.optimizers);
  v.field({.name = "copies", .doc = "Streaming through device memory, ascending."}, p.copies);
  v.field({.name = "collectives", .doc = "Collective curves."}, p.collectives);
  v.field({.name = "complete",
           .doc = "the end mark of a whole file. Without it the rest is probably missing; append "
                  "`complete: true` to an older file that is known to be whole",
           .required = true},
          p.complete);
  v.check([&](auto report) {
    if (!p.complete) report("complete", "says that the file is not", "measure again");
  });
}

namespace {

template <class Item, class Size>
void require_ascending(const std::vector<Item>& items, Size size, const Node& node,
                       const char* what, Diagnostics& diagnostics) {
  const auto out_of_order = std::adjacent_find(
      items.begin(), items.end(), [&](const Item& a, const Item& b) { return size(a) >= size(b); });
  if (out_of_order != items.end())
    diagnostics.add(
        node.error(fmt::format("{} must be in ascending order without repetition", what)));
}

Node child(const Node& node, const char* key) {
  return node.find(key).value_or(node);
}

void check_order(const Profile& profile, const Node& node, Diagnostics& diagnostics) {
  const auto models = child(node, "models").elements();
  for (std::size_t i = 0; i < profile.models.size() && i < models.size(); ++i) {
    require_ascending(
        profile.models[i].batches, [](const ProfileBatch& b) { return b.samples; },
        child(models[i], "batches"), "batches", diagnostics);
  }
  require_ascending(
      profile.copies, [](const ProfileCopy& c) { return c.bytes; }, child(node, "copies"), "copies",
      diagnostics);
  const auto collectives = child(node, "collectives").elements();
  for (std::size_t i = 0; i < profile.collectives.size() && i < collectives.size(); ++i) {
    require_ascending(
        profile.collectives[i].points, [](const ProfileCurvePoint& p) { return p.bytes; },
        child(collectives[i], "points"), "points", diagnostics);
    const auto& names = EnumNames<Collective>::names;
    if (std::find(names.begin(), names.end(), profile.collectives[i].collective) == names.end())
      diagnostics.add(child(collectives[i], "collective")
                          .error(fmt::format("{} is no collective; allowed: {}",
                                             in_quotes(profile.collectives[i].collective),
                                             fmt::join(names, ", "))));
  }
}

}  // namespace

Profile parse_profile(const Node& node) {
  Diagnostics diagnostics;
  Profile profile = read<Profile>(node, diagnostics);
  if (diagnostics.empty()) check_order(profile, node, diagnostics);
  const auto entries = node.entries();
  if (node.find("complete") && entries.back().first != "complete") {
    diagnostics.add(
        node.find("complete")->error("is not the last line", "it marks the end of a whole file"));
  }
  diagnostics.throw_if_any();
  return profile;
}

void apply_profile(const Profile& profile, Machine& machine) {
  std::vector<CollectiveCurve> curves;
  for (const ProfileCollective& measured : profile.collectives) {
    CollectiveCurve curve;
    curve.collective = measured.collective;
    curve.ranks = measured.ranks;
    curve.nodes = measured.nodes;
    curve.source = "profile of " + profile.device;
    bool has_host = false, has_speeds = false, has_sender = false, has_one_core = false;
    for (const ProfileCurvePoint& point : measured.points) {
      curve.bytes.push_back(point.bytes);
      curve.seconds.push_back(point.seconds);
      curve.host_seconds.push_back(point.host_seconds);
      has_host = has_host || point.host_seconds > 0;
      curve.sender_seconds.push_back(point.sender_seconds);
      has_sender = has_sender || point.sender_seconds > 0;
      curve.one_core_seconds.push_back(point.one_core_seconds);
      has_one_core = has_one_core || point.one_core_seconds > 0;
      curve.compute_speed.push_back(point.compute_speed);
      curve.speed_beside_compute.push_back(point.speed_beside_compute);
      has_speeds = has_speeds || (point.compute_speed > 0 && point.speed_beside_compute > 0);
    }
    if (!has_host) curve.host_seconds.clear();
    if (!has_sender) curve.sender_seconds.clear();
    if (!has_one_core) curve.one_core_seconds.clear();
    if (!has_speeds) {
      curve.compute_speed.clear();
      curve.speed_beside_compute.clear();
    }
    curves.push_back(std::move(curve));
  }
  machine.collectives.insert(machine.collectives.begin(), curves.begin(), curves.end());
  const ProfileAllocator& allocator = profile.allocator;
  if (allocator.context_bytes > 0) machine.device.context_bytes = allocator.context_bytes;
  if (allocator.matmul_workspace_bytes > 0)
    machine.device.matmul_workspace_bytes = allocator.matmul_workspace_bytes;
  machine.device.kept_workspace_bytes = allocator.kept_bytes;
}

std::string profile_schema() {
  return json_schema<Profile>("Lockstep profile").dump(2) + "\n";
}

std::string profile_fields() {
  return markdown_fields<Profile>();
}

namespace {

std::string file_of_profile(const std::string& path) {
  std::error_code none;  // a name too long for the system is no folder
  const bool folder = std::filesystem::is_directory(path, none);
  return folder ? (std::filesystem::path(path) / "profile.yaml").string() : path;
}

}  // namespace

Profile load_profile(const std::string& path) {
  return parse_profile(Node::parse_file(file_of_profile(path)));
}

std::shared_ptr<const Profile> shared_profile(const std::string& path) {
  static std::mutex mutex;
  static std::string last;
  static std::uintmax_t last_size = 0;
  static std::filesystem::file_time_type last_time;
  static std::shared_ptr<const Profile> profile;
  const std::string given = file_of_profile(path);
  std::error_code error;  // reading says what is wrong
  const std::string file = std::filesystem::weakly_canonical(given, error).string();
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  const auto time = std::filesystem::last_write_time(file, error);
  const std::lock_guard lock(mutex);
  if (!profile || error || file != last || size != last_size || time != last_time) {
    profile = std::make_shared<const Profile>(load_profile(given));
    last = file;
    last_size = size;
    last_time = time;
  }
  return profile;
}

std::string profile_text(const Profile& profile) {
  return emit_yaml(profile);
}

}  // namespace lockstep
