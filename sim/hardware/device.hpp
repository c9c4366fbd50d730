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

// Kinds of devices: a CPU, and the generations of GPUs from oldest to newest.
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

// A device's values in base units. 0 = not known or not supported, unless a field says otherwise.
struct Device {
  // The name is the file's stem, "a100-sxm4-80gb"; the title is for people, "NVIDIA A100 SXM4 80
  // GB".
  std::string name;
  std::string title;
  Architecture architecture = Architecture::ampere;
  int compute_capability = 80;  // times ten: 70, 80, 86, 89, 90, 100; 0 for a CPU
  int multiprocessors = 0;      // 1 for a CPU device, which is one core
  double clock_hz = 0;          // boost clock
  double board_power = 0;       // W, power limit of the board; 0 = not known
  // Dense peaks in FLOP/s, where a multiply-add counts as two; 0 = not supported.
  double fp32_flops = 0, tf32_flops = 0, fp16_flops = 0, bf16_flops = 0, fp8_flops = 0,
         fp4_flops = 0;
  double memory_bytes = 0;            // usable device memory
  double memory_bandwidth = 0;        // bytes/s, data sheet
  double l2_bytes = 0;                // last-level cache
  double context_bytes = 0;           // CUDA context and loaded kernels (fact 123)
  double matmul_workspace_bytes = 0;  // cuBLAS workspace per handle and stream (fact 124)
  // Bytes of the allocator's memory that libraries hold from the first step on, as a profile
  // measured them. 0 = not measured: each matrix product allocates its workspace and frees it.
  double kept_workspace_bytes = 0;
  // Whether the framework's allocator uses expandable segments (a scenario's `framework:` block).
  bool expandable_segments = false;
  Efficiency efficiency;
  // Kernels measured on boards of this chip, which correct modelled ones; null = none.
  std::shared_ptr<const MeasuredKernels> measured;
  // The device from which the efficiencies were scaled; "" = they were fitted to this device.
  std::string derived_from;
  std::map<std::string, std::string> sources;  // by field: the origin of its value
};

// Peak of the matrix units in this mode, in FLOP/s; the fp32 peak if the device lacks the mode.
double peak_flops(const Device& device, MathMode mode);

// Reads a device file by name or path. Throws ConfigError with all mistakes in the file, or, if
// there is no such device, with the known names.
Device load_device(const std::string& name_or_path);
// Names of the shipped devices, sorted.
std::vector<std::string> known_devices();

}  // namespace lockstep
