// Reads device files into Devices, and returns peaks by precision. Values are copied from the
// file's declaration (device_file.hpp) one by one. The table of measured kernels is a separate
// file, which several devices with the same chip may name.
#include "hardware/device.hpp"

#include <algorithm>

#include "core/data.hpp"
#include "core/describe.hpp"
#include "core/errors.hpp"
#include "hardware/device_file.hpp"

namespace lockstep {

double peak_flops(const Device& device, MathMode mode) {
  double peak = device.fp32_flops;
  switch (mode) {
    case MathMode::fp32:
      break;
    case MathMode::tf32:
      peak = device.tf32_flops;
      break;
    case MathMode::fp16:
      peak = device.fp16_flops;
      break;
    case MathMode::bf16:
      peak = device.bf16_flops;
      break;
    case MathMode::fp8:
      peak = device.fp8_flops;
      break;
    case MathMode::fp4:
      peak = device.fp4_flops;
      break;
  }
  return peak > 0 ? peak : device.fp32_flops;
}

Device load_device(const std::string& name_or_path) {
  const std::string path = locate_file(name_or_path, "platforms/devices", "device");
  const DeviceFile file = read_file<DeviceFile>(path);
  Device device;
  device.name = stem_of(path);
  device.title = file.title;
  device.architecture = file.architecture;
  device.compute_capability = file.compute_capability;
  device.multiprocessors = file.multiprocessors;
  device.clock_hz = file.clock;
  device.board_power = file.board_power;
  device.fp32_flops = file.peak.fp32;
  device.tf32_flops = file.peak.tf32;
  device.fp16_flops = file.peak.fp16;
  device.bf16_flops = file.peak.bf16;
  device.fp8_flops = file.peak.fp8;
  device.fp4_flops = file.peak.fp4;
  device.memory_bytes = file.memory.usable;
  device.memory_bandwidth = file.memory.bandwidth;
  device.l2_bytes = file.memory.l2;
  device.context_bytes = file.context;
  device.matmul_workspace_bytes = file.matmul_workspace;
  device.efficiency = file.efficiency;
  // Only shipped tables may be named, so that a device file cannot read other files.
  if (!file.measured_kernels.empty()) {
    const std::string folder = data_folder("platforms/devices/measured");
    const std::vector<std::string> known = stems_in(folder, ".csv");
    if (std::find(known.begin(), known.end(), file.measured_kernels) == known.end())
      throw file_error(path, "measured_kernels",
                       in_quotes(file.measured_kernels) + " is none that is shipped",
                       allowed_hint(file.measured_kernels, known));
    device.measured = std::make_shared<const MeasuredKernels>(
        read_measured_kernels(folder + "/" + file.measured_kernels + ".csv"));
  }
  device.derived_from = file.derived_from;
  device.sources = file.sources;
  return device;
}

std::vector<std::string> known_devices() {
  return stems_in(data_folder("platforms/devices"), ".yaml");
}

}  // namespace lockstep
