// One accelerator, or one CPU core: the content of a file in platforms/devices. Peaks come from
// data sheets. Efficiencies come from the fit (`lockstep-fit`, docs/device-models.md) or are scaled
// from a fitted device; `sources` says which. Cost models and memory accounting read a Device;
// load_device() makes it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hardware/efficiency.hpp"
#include "hardware/measured_kernels.hpp"
#include "workload/precision.hpp"

namespace lockstep {

// Kinds of devices; the generations of GPUs are in the order of their age.
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

// A device's figures in base units. 0 = not known or not supported, unless a field says otherwise.
struct Device {
  // File stem, "a100-sxm4-80gb", and the name for people, "NVIDIA A100 SXM4 80 GB".
  std::string name;
  std::string title;
  Architecture architecture = Architecture::ampere;
  int compute_capability = 80;  // times ten: 70, 80, 86, 89, 90, 100; 0 for a CPU
  int multiprocessors = 0;      // cores of a CPU
  double clock_hz = 0;          // boost clock
  double board_power = 0;       // W, largest power of the board; 0 = not known
  // Dense peaks in FLOP/s, a multiply-add as two; 0 = not supported.
  double fp32_flops = 0, tf32_flops = 0, fp16_flops = 0, bf16_flops = 0, fp8_flops = 0,
         fp4_flops = 0;
  double memory_bytes = 0;            // usable device memory
  double memory_bandwidth = 0;        // bytes/s, data sheet
  double l2_bytes = 0;                // last-level cache
  double context_bytes = 0;           // CUDA context and loaded kernels (fact 123)
  double matmul_workspace_bytes = 0;  // cuBLAS workspace per handle and stream (fact 124)
  // Bytes that libraries keep of the allocator's memory from the first step on, as a profile
  // measured them; 0 = each matrix product takes its workspace and gives it back.
  double kept_workspace_bytes = 0;
  // The framework's allocator uses expandable segments (a scenario's `framework:` block).
  bool expandable_segments = false;
  Efficiency efficiency;
  // Kernels measured on boards of this chip; null = none.
  std::shared_ptr<const MeasuredKernels> measured;
  // The device whose fitted efficiencies were scaled for this one; "" = the efficiencies are its
  // own.
  std::string derived_from;
  std::map<std::string, std::string> sources;  // by field: the origin of its figure
};

// Peak of the matrix units in this mode, in FLOP/s; the fp32 peak if the device has no such units.
double peak_flops(const Device& device, MathMode mode);

// Reads a device file by name or path. Throws ConfigError with all its mistakes, or with the known
// names.
Device load_device(const std::string& name_or_path);
// Names of the shipped devices, sorted.
std::vector<std::string> known_devices();

}  // namespace lockstep
