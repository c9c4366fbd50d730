// Results of the CUDA probes: plain values, their YAML and JSON, and the profile that follows from
// them. Code that reads or writes results includes it; it needs no CUDA. docs/gpu-acceptance.md
// describes the file.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costs/collective.hpp"
#include "costs/profile.hpp"
#include "hardware/device.hpp"

namespace lockstep {

template <>
struct EnumNames<MathMode> {
  static constexpr std::array names{"fp32", "tf32", "fp16", "bf16"};
};

namespace cuda {
enum class ConvolutionPass { forward, backward_data, backward_weights };
enum class CopyKind {
  h2d_pinned,
  h2d_pageable,
  d2h_pinned,
  d2h_pageable,
  d2d,           // cudaMemcpyAsync within the device
  stream_copy,   // a kernel that reads and writes
  stream_read,   // a kernel that only reads
  stream_write,  // a kernel that only writes
};
}  // namespace cuda

template <>
struct EnumNames<cuda::ConvolutionPass> {
  static constexpr std::array names{"forward", "backward-data", "backward-weights"};
};
template <>
struct EnumNames<cuda::CopyKind> {
  static constexpr std::array names{"h2d-pinned", "h2d-pageable", "d2h-pinned",  "d2h-pageable",
                                    "d2d",        "stream-copy",  "stream-read", "stream-write"};
};

namespace cuda {

// A duration: the median of `samples` samples and their interquartile range.
struct Figure {
  double seconds = 0;
  double iqr_seconds = 0;
  int samples = 0;
};
Figure figure_of(const std::vector<double>& samples);

// C (m x n) = A (m x k) B (k x n). 2 m n k floating-point operations.
struct GemmRow {
  MathMode math = MathMode::fp32;
  std::int64_t m = 0, n = 0, k = 0;
  Figure time;
  double flops_per_second = 0;
  // Fraction of the device file's peak; 0 = the device has no peak for this mode.
  double efficiency = 0;
};

// Square images and kernels, dense (no groups).
struct ConvolutionRow {
  MathMode math = MathMode::fp32;
  ConvolutionPass pass = ConvolutionPass::forward;
  int batch = 0, in_channels = 0, size = 0, out_channels = 0, kernel = 0, stride = 1;
  Figure time;
  double flops_per_second = 0;
  double efficiency = 0;
  double workspace_bytes = 0;  // workspace that cuDNN requested
};

struct CopyRow {
  CopyKind kind = CopyKind::d2d;
  double bytes = 0;  // bytes copied, read or written (a copy within the device moves twice as many)
  Figure time;
  // Traffic of the memory or the link; for d2d and stream_copy, 2 x bytes / time.
  double bytes_per_second = 0;
};

struct LaunchFigures {
  Figure enqueue;           // host time of one kernel launch while the queue has room
  Figure back_to_back;      // device time from one empty kernel to the next
  Figure round_trip;        // a launch and the wait for its end
  Figure event_resolution;  // between two events without work between them
};

// `blocks` blocks add two arrays in device memory, like the reduction of a ring all-reduce, while
// the device computes. With a single GPU, this stands in for a collective (fact 117).
struct InterferenceRow {
  std::string compute;  // for example "gemm fp16 4096x4096x4096" or "stream copy 256 MiB"
  int blocks = 0;
  Figure compute_alone, compute_beside;
  Figure standin_alone, standin_beside;
};
double compute_slowdown(const InterferenceRow& row);  // beside / alone
double standin_slowdown(const InterferenceRow& row);

struct MemoryFigures {
  double total_bytes = 0;
  double context_bytes = 0;            // taken by creating a context and running one kernel
  double cublas_handle_bytes = 0;      // taken by the first product of a cuBLAS handle
  double nccl_communicator_bytes = 0;  // taken by creating a communicator, per device
  std::string source;                  // how `context_bytes` was measured
};

struct CollectiveTiming {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  // As in nccl-tests: for all-gather and reduce-scatter, all ranks' parts together.
  double bytes = 0;
  Figure out_of_place, in_place;
  std::int64_t wrong_out_of_place = 0, wrong_in_place = 0;  // elements with a wrong value
};

struct Measurements {
  int format = 1;
  std::string device;  // device file whose peaks the efficiencies are fractions of; may be empty
  std::string title;   // the driver's name of the device
  std::string date;
  std::map<std::string, std::string> versions;
  std::map<std::string, std::string> settings;
  std::vector<GemmRow> gemm;
  std::vector<ConvolutionRow> convolution;
  std::vector<CopyRow> copies;
  LaunchFigures launch;
  std::vector<InterferenceRow> interference;
  MemoryFigures memory;
  std::vector<CollectiveTiming> collectives;
};

// All results as YAML, which reads back equal, and as one JSON document in base units.
std::string measurements_text(const Measurements& measurements);
Measurements parse_measurements(const std::string& text, const std::string& file_name);
Measurements load_measurements(const std::string& path);
nlohmann::ordered_json measurements_json(const Measurements& measurements);

// The profile that follows from the results: streaming copies, launch cost, context memory,
// collectives of two or more ranks without wrong elements, date, versions and settings.
Profile profile_of(const Measurements& measurements);

// Tables for people: one for each probe that has results.
std::string measurements_tables(const Measurements& measurements);

// One collective's rows in the layout of nccl-tests (times in us, GB = 1e9 bytes). If a row has a
// single rank, a comment line says that it measures only launches and copies.
std::string nccl_tests_table(const std::vector<CollectiveTiming>& rows, Collective collective);

// The device file that fits a GPU: equal compute capability and multiprocessors, and the nearest
// memory within 8 %. Empty if none fits.
std::string matching_device(const std::vector<Device>& known, int compute_capability,
                            int multiprocessors, double memory_bytes);

}  // namespace cuda
}  // namespace lockstep
