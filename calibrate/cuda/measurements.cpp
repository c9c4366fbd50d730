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

FieldSpec seconds_field(const char* name, const char* doc) {
  return {.name = name, .doc = doc, .unit = Dimension::seconds, .min = 0, .max = longest};
}
FieldSpec bytes_field(const char* name, const char* doc) {
  return {.name = name, .doc = doc, .unit = Dimension::bytes, .min = 0};
}
FieldSpec count_field(const char* name, const char* doc) {
  return {.name = name, .doc = doc, .min = 0};
}
FieldSpec size_field(const char* name, const char* doc) {
  return {.name = name, .doc = doc, .min = 1, .required = true};
}
// Speeds are fitted to these rows: without a time they say nothing.
template <class Visitor>
void check_time(Visitor& v, const Figure& time) {
  v.check([&](auto report) {
    if (!(time.seconds > 0)) report("time", "has no median above 0 s", "remove the row");
  });
}

}  // namespace

template <class Visitor>
void describe(Visitor& v, Figure& f) {
  v.field(seconds_field("median", "Median."), f.seconds);
  v.field(seconds_field("iqr", "Interquartile range."), f.iqr_seconds);
  v.field(count_field("samples", "Samples."), f.samples);
}

template <class Visitor>
void describe(Visitor& v, GemmRow& r) {
  v.field({.name = "math", .doc = "What the product is computed in.", .required = true}, r.math);
  v.field({.name = "m", .doc = "Rows of A and C.", .min = 1, .required = true}, r.m);
  v.field({.name = "n", .doc = "Columns of B and C.", .min = 1, .required = true}, r.n);
  v.field({.name = "k", .doc = "Columns of A, rows of B.", .min = 1, .required = true}, r.k);
  v.field({.name = "time", .doc = "Device time of one product."}, r.time);
  v.field(
      {.name = "achieved", .doc = "2 m n k / time.", .unit = Dimension::flops_per_second, .min = 0},
      r.flops_per_second);
  v.field({.name = "efficiency",
           .doc = "achieved / peak of the device file; 0 = no peak known.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 10},
          r.efficiency);
  check_time(v, r.time);
}

template <class Visitor>
void describe(Visitor& v, ConvolutionRow& r) {
  v.field({.name = "math", .doc = "What it is computed in.", .required = true}, r.math);
  v.field({.name = "pass", .doc = "Forward, gradient of data or of weights."}, r.pass);
  v.field(size_field("batch", "Images."), r.batch);
  v.field(size_field("in_channels", "Input channels."), r.in_channels);
  v.field(size_field("size", "Height and width of the input."), r.size);
  v.field(size_field("out_channels", "Output channels."), r.out_channels);
  v.field(size_field("kernel", "Height and width of the kernel; padding is kernel / 2."), r.kernel);
  v.field(size_field("stride", "Stride."), r.stride);
  v.field({.name = "time", .doc = "Device time of one pass."}, r.time);
  v.field({.name = "achieved",
           .doc = "Multiplications and additions / time.",
           .unit = Dimension::flops_per_second,
           .min = 0},
          r.flops_per_second);
  v.field({.name = "efficiency",
           .doc = "achieved / peak of the device file; 0 = no peak known.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 10},
          r.efficiency);
  v.field(bytes_field("workspace", "Workspace that cuDNN asked for."), r.workspace_bytes);
  check_time(v, r.time);
}

template <class Visitor>
void describe(Visitor& v, CopyRow& r) {
  v.field({.name = "kind", .doc = "From where to where.", .required = true}, r.kind);
  v.field(bytes_field("bytes", "Copied, read or written once."), r.bytes);
  v.field({.name = "time", .doc = "One copy."}, r.time);
  v.field({.name = "bandwidth",
           .doc = "Traffic of the memory or link (d2d, stream-copy: read + written).",
           .unit = Dimension::bytes_per_second,
           .min = 0},
          r.bytes_per_second);
  check_time(v, r.time);
}

template <class Visitor>
void describe(Visitor& v, LaunchFigures& l) {
  v.field({.name = "enqueue", .doc = "Host time of one launch."}, l.enqueue);
  v.field({.name = "back_to_back", .doc = "Device time from empty kernel to empty kernel."},
          l.back_to_back);
  v.field({.name = "round_trip", .doc = "Launch and wait."}, l.round_trip);
  v.field({.name = "event_resolution", .doc = "Between two events with nothing between them."},
          l.event_resolution);
}

template <class Visitor>
void describe(Visitor& v, InterferenceRow& r) {
  v.field({.name = "compute", .doc = "What the device computes.", .required = true}, r.compute);
  v.field({.name = "blocks", .doc = "Blocks of the stand-in kernel.", .min = 1}, r.blocks);
  v.field({.name = "compute_alone", .doc = "One kernel, alone."}, r.compute_alone);
  v.field({.name = "compute_beside", .doc = "Beside the stand-in."}, r.compute_beside);
  v.field({.name = "standin_alone", .doc = "One pass of the stand-in, alone."}, r.standin_alone);
  v.field({.name = "standin_beside", .doc = "Beside the computation."}, r.standin_beside);
}

template <class Visitor>
void describe(Visitor& v, MemoryFigures& m) {
  v.field(bytes_field("total", "Device memory, as the driver reports it."), m.total_bytes);
  v.field(bytes_field("context", "Taken by the context and the first kernel."), m.context_bytes);
  v.field(bytes_field("cublas_handle", "Taken by the first product of a cuBLAS handle."),
          m.cublas_handle_bytes);
  v.field(bytes_field("nccl_communicator", "Taken by creating the communicator, per device."),
          m.nccl_communicator_bytes);
  v.field({.name = "source", .doc = "How context was found."}, m.source);
}

template <class Visitor>
void describe(Visitor& v, CollectiveTiming& c) {
  v.field({.name = "collective", .doc = "Which.", .required = true}, c.collective);
  v.field({.name = "ranks", .doc = "Devices; 1 measures launches and a copy.", .min = 1}, c.ranks);
  v.field(bytes_field("bytes", "Size as nccl-tests counts it."), c.bytes);
  v.field({.name = "out_of_place", .doc = "Time with separate buffers."}, c.out_of_place);
  v.field({.name = "in_place", .doc = "Time within one buffer."}, c.in_place);
  v.field(count_field("wrong_out_of_place", "Wrong elements."), c.wrong_out_of_place);
  v.field(count_field("wrong_in_place", "Wrong elements."), c.wrong_in_place);
}

template <class Visitor>
void describe(Visitor& v, Measurements& m) {
  v.field({.name = "format", .doc = "Version of this format.", .min = 1, .max = 1}, m.format);
  v.field({.name = "device", .doc = "Device file whose peaks were used."}, m.device);
  v.field({.name = "title", .doc = "What the driver calls the device."}, m.title);
  v.field({.name = "date", .doc = "Day of the measurement."}, m.date);
  v.field({.name = "versions", .doc = "Software."}, m.versions);
  v.field({.name = "settings", .doc = "Clocks, limits."}, m.settings);
  v.field({.name = "gemm", .doc = "Matrix products."}, m.gemm);
  v.field({.name = "convolution", .doc = "Convolutions."}, m.convolution);
  v.field({.name = "copies", .doc = "Copies and streaming."}, m.copies);
  v.field({.name = "launch", .doc = "Kernel launches."}, m.launch);
  v.field({.name = "interference", .doc = "Computation beside a collective's stand-in."},
          m.interference);
  v.field({.name = "memory", .doc = "Memory taken before the first tensor."}, m.memory);
  v.field({.name = "collectives", .doc = "NCCL."}, m.collectives);
}

namespace {

// The values of a described struct as JSON, numbers in base units.
class JsonWriter {
 public:
  template <class T>
  void field(const FieldSpec& spec, T& value) {
    object[spec.name] = json_of(value);
  }
  void location(Location&) {}
  void location(const char*, Location&) {}
  template <class F>
  void check(F&&) {}

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
