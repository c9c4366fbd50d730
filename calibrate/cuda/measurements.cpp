// Declares the fields of the probes' results (core/fields.hpp), from which YAML, JSON and located
// errors follow. Also converts results to a profile, and finds the device file of a GPU.
#include "cuda/measurements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/describe.hpp"
#include "core/statistics.hpp"

namespace lockstep {

namespace cuda {

namespace {

constexpr double longest = 1e6;  // seconds

const FieldSpec of_seconds{.unit = Dimension::seconds, .min = 0, .max = longest};
const FieldSpec of_bytes{.unit = Dimension::bytes, .min = 0};
const FieldSpec of_count{.min = 0};
const FieldSpec of_size{.min = 1, .required = true};

// Speeds are fitted to these rows, so each row must have a time.
template <class Visitor>
void check_time(Visitor& v, const Figure& time) {
  v.check([&](auto report) {
    if (!(time.seconds > 0)) report("time", "has no median above 0 s", "remove the row");
  });
}

}  // namespace

template <class Visitor>
void describe(Visitor& v, Figure& f) {
  v.field("median", f.seconds, "Median.", of_seconds);
  v.field("iqr", f.iqr_seconds, "Interquartile range.", of_seconds);
  v.field("samples", f.samples, "Samples.", of_count);
}

template <class Visitor>
void describe(Visitor& v, GemmRow& r) {
  v.field("math", r.math, "Number format of the product.", {.required = true});
  v.field("m", r.m, "Rows of A and C.", {.min = 1, .required = true});
  v.field("n", r.n, "Columns of B and C.", {.min = 1, .required = true});
  v.field("k", r.k, "Columns of A, rows of B.", {.min = 1, .required = true});
  v.field("time", r.time, "Device time of one product.");
  v.field("achieved", r.flops_per_second, "2 m n k / time.",
          {.unit = Dimension::flops_per_second, .min = 0});
  v.field("efficiency", r.efficiency, "achieved / peak of the device file; 0 = no peak known.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  check_time(v, r.time);
}

template <class Visitor>
void describe(Visitor& v, ConvolutionRow& r) {
  v.field("math", r.math, "Number format of the computation.", {.required = true});
  v.field("pass", r.pass, "Forward, gradient of data or of weights.");
  v.field("batch", r.batch, "Images.", of_size);
  v.field("in_channels", r.in_channels, "Input channels.", of_size);
  v.field("size", r.size, "Height and width of the input.", of_size);
  v.field("out_channels", r.out_channels, "Output channels.", of_size);
  v.field("kernel", r.kernel, "Height and width of the kernel; padding is kernel / 2.", of_size);
  v.field("stride", r.stride, "Stride.", of_size);
  v.field("time", r.time, "Device time of one pass.");
  v.field("achieved", r.flops_per_second, "Multiplications and additions / time.",
          {.unit = Dimension::flops_per_second, .min = 0});
  v.field("efficiency", r.efficiency, "achieved / peak of the device file; 0 = no peak known.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("workspace", r.workspace_bytes, "Workspace that cuDNN asked for.", of_bytes);
  check_time(v, r.time);
}

template <class Visitor>
void describe(Visitor& v, CopyRow& r) {
  v.field("kind", r.kind, "From where to where.", {.required = true});
  v.field("bytes", r.bytes, "Copied, read or written once.", of_bytes);
  v.field("time", r.time, "One copy.");
  v.field("bandwidth", r.bytes_per_second,
          "Traffic of the memory or link (d2d, stream-copy: read + written).",
          {.unit = Dimension::bytes_per_second, .min = 0});
  check_time(v, r.time);
}

template <class Visitor>
void describe(Visitor& v, LaunchFigures& l) {
  v.field("enqueue", l.enqueue, "Host time of one launch.");
  v.field("back_to_back", l.back_to_back, "Device time from empty kernel to empty kernel.");
  v.field("round_trip", l.round_trip, "Launch and wait.");
  v.field("event_resolution", l.event_resolution, "Between two events with nothing between them.");
}

template <class Visitor>
void describe(Visitor& v, InterferenceRow& r) {
  v.field("compute", r.compute, "Computation on the device.", {.required = true});
  v.field("blocks", r.blocks, "Blocks of the stand-in kernel.", {.min = 1});
  v.field("compute_alone", r.compute_alone, "One kernel, alone.");
  v.field("compute_beside", r.compute_beside, "Beside the stand-in.");
  v.field("standin_alone", r.standin_alone, "One pass of the stand-in, alone.");
  v.field("standin_beside", r.standin_beside, "Beside the computation.");
}

template <class Visitor>
void describe(Visitor& v, MemoryFigures& m) {
  v.field("total", m.total_bytes, "Device memory, as the driver reports it.", of_bytes);
  v.field("context", m.context_bytes, "Taken by the context and the first kernel.", of_bytes);
  v.field("cublas_handle", m.cublas_handle_bytes, "Taken by the first product of a cuBLAS handle.",
          of_bytes);
  v.field("nccl_communicator", m.nccl_communicator_bytes,
          "Taken by creating the communicator, per device.", of_bytes);
  v.field("source", m.source, "How context was found.");
}

template <class Visitor>
void describe(Visitor& v, CollectiveTiming& c) {
  v.field("collective", c.collective, "Which.", {.required = true});
  v.field("ranks", c.ranks, "Devices; 1 measures launches and a copy.", {.min = 1});
  v.field("bytes", c.bytes, "Size as nccl-tests counts it.", of_bytes);
  v.field("out_of_place", c.out_of_place, "Time with separate buffers.");
  v.field("in_place", c.in_place, "Time within one buffer.");
  v.field("wrong_out_of_place", c.wrong_out_of_place, "Wrong elements.", of_count);
  v.field("wrong_in_place", c.wrong_in_place, "Wrong elements.", of_count);
}

template <class Visitor>
void describe(Visitor& v, Measurements& m) {
  v.field("format", m.format, "Version of this format.", {.min = 1, .max = 1});
  v.field("device", m.device, "Device file whose peaks were used.");
  v.field("title", m.title, "Name of the device as the driver reports it.");
  v.field("date", m.date, "Day of the measurement.");
  v.field("versions", m.versions, "Software.");
  v.field("settings", m.settings, "Clocks, limits.");
  v.field("gemm", m.gemm, "Matrix products.");
  v.field("convolution", m.convolution, "Convolutions.");
  v.field("copies", m.copies, "Copies and streaming.");
  v.field("launch", m.launch, "Kernel launches.");
  v.field("interference", m.interference, "Computation beside a collective's stand-in.");
  v.field("memory", m.memory, "Memory taken before the first tensor.");
  v.field("collectives", m.collectives, "NCCL.");
}

namespace {

// Writes the values of a struct with described fields as JSON, with numbers in base units.
class JsonWriter : public FieldVisitor<JsonWriter> {
 public:
  template <class T>
  void visit(const FieldSpec& spec, T& value) {
    object[spec.name] = json_of(value);
  }

  nlohmann::ordered_json object = nlohmann::ordered_json::object();

 private:
  template <class T>
  static nlohmann::ordered_json json_of(T& value) {
    if constexpr (std::is_enum_v<T>) {
      return enum_name(value);
    } else if constexpr (fields::is_scalar<T>) {
      return value;
    } else if constexpr (fields::Kind<T>::map) {
      auto map = nlohmann::ordered_json::object();
      for (auto& [key, item] : value) map[key] = json_of(item);
      return map;
    } else if constexpr (fields::Kind<T>::vector) {
      auto list = nlohmann::ordered_json::array();
      for (auto& item : value) list.push_back(json_of(item));
      return list;
    } else {
      JsonWriter inner;
      describe(inner, value);
      return std::move(inner.object);
    }
  }
};

}  // namespace

std::string measurements_text(const Measurements& measurements) {
  return emit_yaml(measurements);
}

Measurements parse_measurements(const std::string& text, const std::string& file_name) {
  return read_text<Measurements>(text, file_name);
}

Measurements load_measurements(const std::string& path) {
  return read_file<Measurements>(path);
}

nlohmann::ordered_json measurements_json(const Measurements& measurements) {
  JsonWriter writer;
  Measurements copy = measurements;  // describe() takes fields by reference for all visitors
  describe(writer, copy);
  return std::move(writer.object);
}

Figure figure_of(const std::vector<double>& samples) {
  return {median(samples), quantile(samples, 0.75) - quantile(samples, 0.25),
          static_cast<int>(samples.size())};
}

double compute_slowdown(const InterferenceRow& row) {
  return row.compute_beside.seconds / row.compute_alone.seconds;
}
double standin_slowdown(const InterferenceRow& row) {
  return row.standin_beside.seconds / row.standin_alone.seconds;
}

Profile profile_of(const Measurements& measurements) {
  Profile profile;
  profile.device = measurements.device;
  profile.date = measurements.date;
  for (const auto& [name, version] : measurements.versions)
    profile.versions.push_back({name, version});
  for (const auto& [name, value] : measurements.settings) profile.settings.push_back({name, value});
  profile.host.launch_seconds = measurements.launch.enqueue.seconds;
  profile.allocator.context_bytes = measurements.memory.context_bytes;
  for (const CopyRow& row : measurements.copies)
    if (row.kind == CopyKind::stream_copy)
      profile.copies.push_back({2 * row.bytes, row.time.seconds});
  std::sort(profile.copies.begin(), profile.copies.end(),
            [](const ProfileCopy& a, const ProfileCopy& b) { return a.bytes < b.bytes; });
  for (const CollectiveTiming& row : measurements.collectives) {
    if (row.ranks < 2 || row.wrong_out_of_place > 0) continue;
    const std::string name = enum_name(row.collective);
    auto curve = std::find_if(
        profile.collectives.begin(), profile.collectives.end(),
        [&](const ProfileCollective& c) { return c.collective == name && c.ranks == row.ranks; });
    if (curve == profile.collectives.end()) {
      profile.collectives.push_back({name, "nccl", row.ranks, 1, {}});
      curve = profile.collectives.end() - 1;
    }
    curve->points.push_back({row.bytes, row.out_of_place.seconds});
  }
  for (ProfileCollective& curve : profile.collectives)
    std::sort(
        curve.points.begin(), curve.points.end(),
        [](const ProfileCurvePoint& a, const ProfileCurvePoint& b) { return a.bytes < b.bytes; });
  return profile;
}

std::string matching_device(const std::vector<Device>& known, int compute_capability,
                            int multiprocessors, double memory_bytes) {
  std::string best;
  double best_distance = 0.08;
  for (const Device& device : known) {
    if (device.compute_capability != compute_capability ||
        device.multiprocessors != multiprocessors)
      continue;
    const double distance = std::abs(device.memory_bytes - memory_bytes) / memory_bytes;
    if (distance <= best_distance) {
      best = device.name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace cuda
}  // namespace lockstep
