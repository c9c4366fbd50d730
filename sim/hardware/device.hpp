// One accelerator (or CPU core): what platforms/devices/*.yaml holds. Peaks come from data sheets;
// the efficiency parameters from the fit (`tools: lockstep-fit`, docs/device-models.md) or are
// derived, and each says which in `sources`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hardware/efficiency.hpp"
#include "hardware/measured_kernels.hpp"
#include "workload/precision.hpp"

namespace lockstep {

enum class Architecture {
  cpu,
  kepler,
  maxwell,
  pascal,
  volta,
  turing,
  ampere,
  ada,
  hopper,
  blackwell
};
template <>
struct EnumNames<Architecture> {
  static constexpr std::array names{"cpu",    "kepler", "maxwell", "pascal", "volta",
                                    "turing", "ampere", "ada",     "hopper", "blackwell"};
};

struct Device {
  std::string name;   // "a100-sxm4-80gb"; the file's stem
  std::string title;  // "NVIDIA A100 SXM4 80 GB"
  Architecture architecture = Architecture::ampere;
  int compute_capability = 80;  // 70, 80, 86, 89, 90, 100; 0 for a CPU
  int multiprocessors = 0;
  double clock_hz = 0;     // boost clock
  double board_power = 0;  // W, what the board may draw at most; 0 = not known
  double fp32_flops = 0, tf32_flops = 0, fp16_flops = 0, bf16_flops = 0, fp8_flops = 0,
         fp4_flops = 0;         // dense peaks; 0 = not supported
  double memory_bytes = 0;      // usable device memory
  double memory_bandwidth = 0;  // bytes/s, data sheet
  double l2_bytes = 0;
  double context_bytes = 0;           // CUDA context and loaded kernels (fact 123)
  double matmul_workspace_bytes = 0;  // cuBLAS workspace per handle and stream (fact 124)
  // What libraries keep of the allocator's memory from the first step on, where a profile says so;
  // 0 = each matrix product takes its workspace and gives it back.
  double kept_workspace_bytes = 0;
  bool expandable_segments = false;  // of the framework's allocator
  Efficiency efficiency;
  std::shared_ptr<const MeasuredKernels> measured;  // of the chip; null = none
  std::string derived_from;  // device whose fitted efficiencies were scaled; "" = fitted/own
  std::map<std::string, std::string> sources;  // field -> where the figure comes from
};

// The peak the matrix units reach in this mode; fp32 peak where the device has no such units.
double peak_flops(const Device& device, MathMode mode);

Device load_device(const std::string& name_or_path);  // throws ConfigError with the known names
std::vector<std::string> known_devices();

}  // namespace lockstep
