// Declares the fields of profile.yaml, from which reader, writer, schema and documentation follow
// (core/describe.hpp), and reads profiles with checks that span several fields: ascending sizes,
// numbers of stages, names of collectives, the end mark.
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
  v.field("name", p.name, "Component.", {.required = true});
  v.field("version", p.version, "Version as the component states it.", {.required = true});
}

template <class Visitor>
void describe(Visitor& v, ProfileSetting& p) {
  v.field("name", p.name, "Setting that influences the figures.", {.required = true});
  v.field("value", p.value, "Its value while measuring.", {.required = true});
}

template <class Visitor>
void describe(Visitor& v, ProfileNoise& p) {
  v.field("samples", p.samples, "Repetitions behind every figure.", {.min = 0});
  // There is no real upper limit, because measurements on a busy machine must not make the whole
  // profile invalid.
  v.field("relative_spread", p.relative_spread,
          "Median over the figures of (90th percentile - median) / median.",
          {.unit = Dimension::fraction, .min = 0, .max = 1e9});
}

template <class Visitor>
void describe(Visitor& v, ProfileHost& p) {
  v.field("operator", p.operator_seconds, "Host time to dispatch one forward operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("backward_operator", p.backward_operator_seconds,
          "Host time to dispatch one backward operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("update_operator", p.update_operator_seconds,
          "Host time of one operator of an update in a loop over tensors; 0 = operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("launch", p.launch_seconds, "Host time of each further launch inside an operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
}

template <class Visitor>
void describe_iqr(Visitor& v, const char* name, const char* doc, double& iqr) {
  v.field(name, iqr, doc, {.unit = Dimension::fraction, .min = 0, .max = 1e9});
}

template <class Visitor>
void describe(Visitor& v, ProfileLayer& p) {
  v.field("name", p.name, "Layer, as named by the model.", {.required = true});
  v.field("forward", p.forward_seconds, "Median device time forward.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e4, .required = true});
  v.field("backward", p.backward_seconds, "Median device time backward; left out = not measured.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e4});
  describe_iqr(v, "forward_iqr", "Interquartile range / median of forward; 0 = not noted.",
               p.forward_iqr);
  describe_iqr(v, "backward_iqr", "Interquartile range / median of backward; 0 = not noted.",
               p.backward_iqr);
  v.field("forward_workspace", p.forward_workspace,
          "Largest block of memory that came and went meanwhile, forward; left out = not measured.",
          {.unit = Dimension::bytes, .min = 0});
  v.field("backward_workspace", p.backward_workspace, "The same, backward.",
          {.unit = Dimension::bytes, .min = 0});
}

template <class Visitor>
void describe(Visitor& v, ProfileMemory& p) {
  const auto bytes = [&v](const char* name, const char* doc, double& value) {
    v.field(name, value, doc, {.unit = Dimension::bytes, .min = 0});
  };
  bytes("parameters", "Parameters.", p.parameters);
  bytes("buffers", "Running statistics and the like.", p.buffers);
  bytes("optimizer_state", "Momenta.", p.optimizer_state);
  bytes("saved_activations",
        "Live after forward, without parameters, buffers, state and the batch.",
        p.saved_activations);
  bytes("peak", "Peak of all live bytes.", p.peak);
  bytes("reserved", "Peak of the caching allocator's segments; 0 on CPUs.", p.reserved);
  bytes("kept",
        "Memory that libraries kept between two steps, for readers of the file; allocator.kept is "
        "the median over the batches.",
        p.kept);
}

template <class Visitor>
void describe(Visitor& v, ProfileBatch& p) {
  v.field("samples", p.samples, "Batch.", {.min = 1, .required = true});
  v.field("step_sigma", p.step_sigma,
          "Standard deviation of the logarithm of the whole step from one to the next.",
          {.unit = Dimension::fraction, .min = 0, .max = 5});
  v.field("step_factors", p.step_factors,
          "Single steps over the median of their neighbours, interruptions included.",
          {.min = 1e-3, .max = 1e6});
  v.field("operator", p.operator_seconds,
          "Host time of one forward operator of this model and batch; 0 = host.operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("backward_operator", p.backward_operator_seconds,
          "Host time of one of its backward operators; 0 = host.backward_operator.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("update_operator", p.update_operator_seconds,
          "Host time of one operator of its update, for people: host.update_operator is the median "
          "of these.",
          {.unit = Dimension::seconds, .min = 0, .max = 1});
  v.field("layers", p.layers, "Times in forward order.", {.required = true});
  v.field("memory", p.memory, "Tensors of one step.");
}

template <class Visitor>
void describe(Visitor& v, ProfileModel& p) {
  v.field("model", p.model, "Model file.", {.required = true});
  v.field("precision", p.precision, "Numeric mode.", {.required = true});
  v.field("input_bytes_per_sample", p.input_bytes_per_sample,
          "Bytes copied to the device per sample; tells input sizes apart.",
          {.unit = Dimension::bytes, .min = 0, .required = true});
  v.field("batches", p.batches, "Measured batches, ascending.", {.required = true});
}

template <class Visitor>
void describe(Visitor& v, ProfileOptimizer& p) {
  v.field("name", p.name, "Update rule.", {.required = true});
  v.field("implementation", p.implementation, "As in a scenario's optimizer.");
  v.field("momentum", p.momentum, "sgd: whether momentum is kept.");
  v.field("precision", p.precision, "Numeric mode.");
  v.field("elements", p.elements, "Parameters updated.",
          {.unit = Dimension::count, .min = 1, .required = true});
  v.field("tensors", p.tensors, "Tensors they lie in.", {.min = 1});
  v.field("time", p.seconds, "Median device time.",
          {.unit = Dimension::seconds, .min = 0, .required = true});
  describe_iqr(v, "iqr", "Interquartile range / median of the time; 0 = not noted.", p.iqr);
}

template <class Visitor>
void describe(Visitor& v, ProfileCopy& p) {
  v.field("bytes", p.bytes, "Bytes read + written.",
          {.unit = Dimension::bytes, .min = 1, .required = true});
  v.field("time", p.seconds, "Median device time.",
          {.unit = Dimension::seconds, .min = 0, .required = true});
  describe_iqr(v, "iqr", "Interquartile range / median of the time; 0 = not noted.", p.iqr);
}

template <class Visitor>
void describe(Visitor& v, ProfileHookPoint& p) {
  v.field("bytes", p.bytes, "Gradients of the bucket.",
          {.unit = Dimension::bytes, .min = 1, .required = true});
  v.field("stages", p.seconds,
          "Median time of each stage: before each collective, and after the last. top-k: two; "
          "powersgd: four.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e4, .required = true});
}

template <class Visitor>
void describe(Visitor& v, ProfileHook& p) {
  v.field("hook", p.settings.hook, "As in a scenario's comm_hook.", {.required = true});
  v.field("fraction", p.settings.fraction, "top-k: share of a bucket's elements that is sent.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 1});
  v.field("rank", p.settings.rank, "powersgd: rank of the approximation.", {.min = 1, .max = 1024});
  v.field("ranks", p.settings.ranks, "Processes that reduce the bucket.",
          {.min = 2, .required = true});
  v.field("model", p.model, "Model whose gradients filled the buckets.");
  v.field("points", p.points, "By size, ascending.", {.required = true, .min_items = 1});
}

template <class Visitor>
void describe(Visitor& v, ProfileCurvePoint& p) {
  v.field("bytes", p.bytes, "Size as nccl-tests counts it.",
          {.unit = Dimension::bytes, .min = 1, .required = true});
  v.field("time", p.seconds, "Median time.",
          {.unit = Dimension::seconds, .min = 1e-9, .required = true});
  v.field("host", p.host_seconds,
          "CPU time of one rank's process meanwhile, all its threads; 0 = not measured.",
          {.unit = Dimension::seconds, .min = 0});
  v.field("compute_speed", p.compute_speed,
          "How fast every rank computes beside it, relative to alone; 0 = not measured.",
          {.min = 0, .max = 1});
  v.field("speed_beside_compute", p.speed_beside_compute,
          "How fast it is itself then, relative to alone; 0 = not measured.", {.min = 0, .max = 1});
  v.field("sender", p.sender_seconds,
          "send_recv: time after which the sender is free, the rest of the message being in "
          "buffers on the way; 0 = not measured.",
          {.unit = Dimension::seconds, .min = 0});
  v.field("one_core", p.one_core_seconds,
          "send_recv: time where both processes have one core; 0 = not measured.",
          {.unit = Dimension::seconds, .min = 0});
}

template <class Visitor>
void describe(Visitor& v, ProfileCollective& p) {
  v.field("collective", p.collective,
          "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all or send_recv (one "
          "message from one rank to another).",
          {.required = true});
  v.field("backend", p.backend, "Library that ran it.", {.required = true});
  v.field("ranks", p.ranks, "Processes.", {.min = 1, .required = true});
  v.field("nodes", p.nodes, "Nodes they ran on.", {.min = 1});
  v.field("points", p.points, "The curve, ascending.", {.required = true, .min_items = 1});
}

template <class Visitor>
void describe(Visitor& v, ProfileAllocator& p) {
  v.field("context", p.context_bytes, "Device memory in use before the first tensor.",
          {.unit = Dimension::bytes, .min = 0});
  v.field("matmul_workspace", p.matmul_workspace_bytes, "Workspace of one matrix library handle.",
          {.unit = Dimension::bytes, .min = 0});
  v.field("kept", p.kept_bytes,
          "Memory that libraries keep between two steps, in addition to parameters, buffers, state "
          "and the batch; 0 = not measured.",
          {.unit = Dimension::bytes, .min = 0});
}

template <class Visitor>
void describe(Visitor& v, Profile& p) {
  v.field("format", p.format, "Version of this format.", {.min = 1, .max = 1, .required = true});
  v.field("device", p.device, "Device file the figures belong to.", {.required = true});
  v.field("date", p.date, "Day of the measurement, 2026-11-21.");
  v.field("versions", p.versions, "Software under test.");
  v.field("settings", p.settings, "Settings under test.");
  v.field("noise", p.noise, "How repeatable the figures are.");
  v.field("host", p.host, "Dispatch costs.");
  v.field("allocator", p.allocator, "Memory facts.");
  v.field("models", p.models, "Layer times.");
  v.field("optimizers", p.optimizers, "Optimizer steps.");
  v.field("copies", p.copies, "Streaming through device memory, ascending.");
  v.field("hooks", p.hooks, "Work of communication hooks on buckets of gradients.");
  v.field("collectives", p.collectives, "Collective curves.");
  v.field("complete", p.complete,
          "the end mark of a whole file. Without it the rest is probably missing; append "
          "`complete: true` to an older file that is known to be whole",
          {.required = true});
  v.check([&](auto report) {
    if (!p.complete) report("complete", "says that the file is not", "measure again");
  });
}

namespace {

// Reports a list whose sizes do not ascend strictly; lookups rely on the order.
template <class Item, class Size>
void require_ascending(const std::vector<Item>& items, Size size, const Node& node,
                       const char* what, Diagnostics& diagnostics) {
  const auto out_of_order = std::adjacent_find(
      items.begin(), items.end(), [&](const Item& a, const Item& b) { return size(a) >= size(b); });
  if (out_of_order != items.end())
    diagnostics.add(
        node.error(fmt::format("{} must be in ascending order without repetition", what)));
}

// The value of a key, or the node itself if the key is absent; used for the location of an error.
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
  const auto hooks = child(node, "hooks").elements();
  for (std::size_t i = 0; i < profile.hooks.size() && i < hooks.size(); ++i) {
    const ProfileHook& hook = profile.hooks[i];
    const Node points = child(hooks[i], "points");
    require_ascending(
        hook.points, [](const ProfileHookPoint& p) { return p.bytes; }, points, "points",
        diagnostics);
    const std::size_t stages = stages_of(hook.settings.hook);
    for (std::size_t p = 0; p < hook.points.size(); ++p) {
      if (hook.points[p].seconds.size() == stages) continue;
      diagnostics.add(
          child(points.elements()[p], "stages")
              .error(fmt::format("{} has {} stages, not {}", enum_name(hook.settings.hook), stages,
                                 hook.points[p].seconds.size())));
    }
  }
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

// The end mark must be the last key, so that a truncated file is never accepted as a complete one.
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

// An optional column of a curve is copied only if some point has a value for it, because an empty
// column means "not measured".
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

// The file that a path names, which may be a folder with a profile.yaml.
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
  const std::string file_name = file_of_profile(path);
  std::error_code error;  // not reported: load_profile() below fails with a better message
  const std::string file = std::filesystem::weakly_canonical(file_name, error).string();
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  const auto time = std::filesystem::last_write_time(file, error);
  const std::lock_guard lock(mutex);
  if (!profile || error || file != last || size != last_size || time != last_time) {
    profile = std::make_shared<const Profile>(load_profile(file_name));
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
