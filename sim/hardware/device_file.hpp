// The format of platforms/devices/*.yaml, with one declaration per field (core/fields.hpp).
// device.cpp reads the files; docs/device-format.md describes the format, and `lockstep schema
// device` prints its schema.
#pragma once

#include <map>
#include <string>

#include "core/fields.hpp"
#include "hardware/device.hpp"

namespace lockstep {

// Dense peaks in FLOP/s; 0 = not supported.
struct PeakFile {
  double fp32 = 0, tf32 = 0, fp16 = 0, bf16 = 0, fp8 = 0, fp4 = 0;
};
// Bytes of device memory, bytes/s, and bytes of the L2 cache.
struct DeviceMemoryFile {
  double usable = 0, bandwidth = 0, l2 = 0;
};
// A device file as written, with quantities in base units. The strings in describe() explain the
// fields.
struct DeviceFile {
  std::string title;
  Architecture architecture = Architecture::ampere;
  int compute_capability = 0;
  int multiprocessors = 1;
  double clock = 0;
  double board_power = 0;
  PeakFile peak;
  DeviceMemoryFile memory;
  double context = 0;
  double matmul_workspace = 0;
  Efficiency efficiency;
  std::string measured_kernels;
  std::string derived_from;
  std::map<std::string, std::string> sources;
};

template <class Visitor>
void describe(Visitor& v, PeakFile& p) {
  constexpr auto unit = Dimension::flops_per_second;
  v.field("fp32", p.fp32, "Vector units, multiply-adds as two.",
          {.unit = unit, .min = 1e6, .max = 1e18, .required = true});
  v.field("tf32", p.tf32, "TF32 matrix units, dense.", {.unit = unit, .min = 0, .max = 1e18});
  v.field("fp16", p.fp16, "FP16 matrix units, dense.", {.unit = unit, .min = 0, .max = 1e18});
  v.field("bf16", p.bf16, "BF16 matrix units, dense.", {.unit = unit, .min = 0, .max = 1e18});
  v.field("fp8", p.fp8, "FP8 matrix units, dense.", {.unit = unit, .min = 0, .max = 1e18});
  v.field("fp4", p.fp4, "FP4 matrix units, dense.", {.unit = unit, .min = 0, .max = 1e18});
}

template <class Visitor>
void describe(Visitor& v, DeviceMemoryFile& m) {
  v.field("usable", m.usable,
          "Total memory as the driver reports it, not the data sheet's round number.",
          {.unit = Dimension::bytes, .min = 1e6, .max = 1e15, .required = true});
  v.field("bandwidth", m.bandwidth, "Data-sheet bandwidth.",
          {.unit = Dimension::bytes_per_second, .min = 1e6, .max = 1e16, .required = true});
  v.field("l2", m.l2, "Last-level cache.", {.unit = Dimension::bytes, .min = 0, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, DeviceFile& d) {
  v.field("title", d.title, "Name for people.", {.required = true});
  v.field("architecture", d.architecture, "Generation.", {.required = true});
  v.field("compute_capability", d.compute_capability,
          "CUDA compute capability times ten (80, 86, 90); 0 for a CPU.", {.min = 0, .max = 200});
  v.field("multiprocessors", d.multiprocessors, "Streaming multiprocessors; 1 for a CPU core.",
          {.min = 1, .max = 100000, .required = true});
  v.field("clock", d.clock, "Boost clock.",
          {.unit = Dimension::hertz, .min = 1e6, .max = 1e11, .required = true});
  v.field("board_power", d.board_power,
          "Power limit of the board; 0 = unknown, then no energy is predicted.",
          {.unit = Dimension::watts, .min = 0, .max = 1e5});
  v.field("peak", d.peak, "Dense peaks; left out = not supported.", {.required = true});
  v.field("memory", d.memory, "Device memory.", {.required = true});
  v.field("context", d.context,
          "Memory a process holds before its first tensor: context and loaded kernels.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e11});
  v.field("matmul_workspace", d.matmul_workspace, "Matrix-library workspace per handle and stream.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e11});
  v.field("efficiency", d.efficiency, "Shares of the peaks that kernels reach.");
  v.field("measured_kernels", d.measured_kernels,
          "File in platforms/devices/measured: kernels measured on boards of this chip, which "
          "correct modelled ones near them; empty = none.");
  v.field("derived_from", d.derived_from,
          "Device whose fitted efficiencies these are scaled from; empty = own.");
  v.field("sources", d.sources, "Field: where its figure comes from.");
}

}  // namespace lockstep
