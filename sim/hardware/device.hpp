// One accelerator (or CPU core): what platforms/devices/*.yaml holds. Peaks come from data sheets; the
// efficiency parameters from the fit (`tools: lockstep-fit`, docs/device-models.md) or are derived, and
// each says which in `sources`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "workload/precision.hpp"

namespace lockstep {

enum class Architecture { cpu, volta, turing, ampere, ada, hopper, blackwell };
template <>
struct EnumNames<Architecture> {
  static constexpr std::array names{"cpu", "volta", "turing", "ampere", "ada", "hopper", "blackwell"};
};

// How close to the peaks kernels get. Physical meaning, unit and origin of each in
// docs/device-models.md. The cost room (costs/kernel_model.cpp) is the only reader.
struct Efficiency {
  double matmul = 0.80;            // best large GEMM, fraction of peak (fact 132)
  double convolution = 0.60;       // best dense 3x3 convolution, fraction of peak
  double attention = 0.50;         // fused attention, fraction of peak
  double memory = 0.85;            // streaming kernels, fraction of memory bandwidth (fact 128)
  double grouped_convolution = 0.10;  // grouped/depthwise: fraction of the fp32 peak
  double kernel_floor_seconds = 3e-6;  // shortest device time of one kernel (fact 128)
};

struct Device {
  std::string name;      // "a100-sxm4-80gb"; the file's stem
  std::string title;     // "NVIDIA A100 SXM4 80 GB"
  Architecture architecture = Architecture::ampere;
  int multiprocessors = 0;
  double clock_hz = 0;   // boost clock
  double fp32_flops = 0, tf32_flops = 0, fp16_flops = 0, bf16_flops = 0;  // dense peaks; 0 = not supported
  double memory_bytes = 0;          // usable device memory
  double memory_bandwidth = 0;      // bytes/s, data sheet
  double l2_bytes = 0;
  double context_bytes = 0;         // CUDA context and loaded kernels (fact 123)
  double matmul_workspace_bytes = 0;  // cuBLAS workspace per handle and stream (fact 124)
  Efficiency efficiency;
  std::string derived_from;         // device whose fitted efficiencies were scaled; "" = fitted/own
  std::map<std::string, std::string> sources;  // field -> where the figure comes from
};

// The peak the matrix units reach in this mode; fp32 peak where the device has no such units.
double peak_flops(const Device& device, MathMode mode);

Device load_device(const std::string& name_or_path);  // throws ConfigError with the known names
std::vector<std::string> known_devices();

}  // namespace lockstep
