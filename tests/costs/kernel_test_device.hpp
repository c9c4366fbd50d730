// Devices with round figures. Use them where a test's expected value is worked out by hand.
#pragma once

#include "hardware/device.hpp"

namespace lockstep {

inline Device round_device() {
  Device d;
  d.name = "round";
  d.architecture = Architecture::ampere;
  d.multiprocessors = 100;
  d.clock_hz = 1e9;
  d.fp32_flops = 20e12;
  d.tf32_flops = 100e12;
  d.fp16_flops = 200e12;
  d.bf16_flops = 200e12;
  d.memory_bytes = 80e9;
  d.memory_bandwidth = 2e12;
  d.l2_bytes = 40e6;
  d.efficiency = Efficiency{};
  d.efficiency.memory = 0.8;
  d.efficiency.matmul = 0.8;
  d.efficiency.matmul_fp32 = 0.8;
  d.efficiency.convolution = 0.5;
  d.efficiency.kernel_floor_seconds = 2e-6;
  return d;
}

}  // namespace lockstep
