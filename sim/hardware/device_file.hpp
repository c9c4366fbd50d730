// The format of platforms/devices/*.yaml: one declaration per field, see docs/device-format.md.
#pragma once

#include <map>
#include <string>

#include "core/fields.hpp"
#include "hardware/device.hpp"

namespace lockstep {

struct PeakFile {
  double fp32 = 0, tf32 = 0, fp16 = 0, bf16 = 0;
};
struct DeviceMemoryFile {
  double usable = 0, bandwidth = 0, l2 = 0;
};
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
  v.field({.name = "fp32",
           .doc = "Vector units, multiply-adds as two.",
           .unit = unit,
           .min = 1e6,
           .max = 1e18,
           .required = true},
          p.fp32);
  v.field({.name = "tf32", .doc = "TF32 matrix units, dense.", .unit = unit, .min = 0, .max = 1e18},
          p.tf32);
  v.field({.name = "fp16", .doc = "FP16 matrix units, dense.", .unit = unit, .min = 0, .max = 1e18},
          p.fp16);
  v.field({.name = "bf16", .doc = "BF16 matrix units, dense.", .unit = unit, .min = 0, .max = 1e18},
          p.bf16);
}

template <class Visitor>
void describe(Visitor& v, DeviceMemoryFile& m) {
  v.field({.name = "usable",
           .doc = "What the driver reports as total, not the data sheet's round number.",
           .unit = Dimension::bytes,
           .min = 1e6,
           .max = 1e15,
           .required = true},
          m.usable);
  v.field({.name = "bandwidth",
           .doc = "Data-sheet bandwidth.",
           .unit = Dimension::bytes_per_second,
           .min = 1e6,
           .max = 1e16,
           .required = true},
          m.bandwidth);
  v.field(
      {.name = "l2", .doc = "Last-level cache.", .unit = Dimension::bytes, .min = 0, .max = 1e12},
      m.l2);
}

template <class Visitor>
void describe(Visitor& v, DeviceFile& d) {
  v.field({.name = "title", .doc = "Name for people.", .required = true}, d.title);
  v.field({.name = "architecture", .doc = "Generation.", .required = true}, d.architecture);
  v.field({.name = "compute_capability",
           .doc = "CUDA compute capability times ten (80, 86, 90); 0 for a CPU.",
           .min = 0,
           .max = 200},
          d.compute_capability);
  v.field({.name = "multiprocessors",
           .doc = "Streaming multiprocessors; cores of a CPU.",
           .min = 1,
           .max = 100000,
           .required = true},
          d.multiprocessors);
  v.field({.name = "clock",
           .doc = "Boost clock.",
           .unit = Dimension::hertz,
           .min = 1e6,
           .max = 1e11,
           .required = true},
          d.clock);
  v.field({.name = "board_power",
           .doc = "What the board may draw at most; 0 = not known, and no energy is said.",
           .unit = Dimension::watts,
           .min = 0,
           .max = 1e5},
          d.board_power);
  v.field({.name = "peak", .doc = "Dense peaks; left out = not supported.", .required = true},
          d.peak);
  v.field({.name = "memory", .doc = "Device memory.", .required = true}, d.memory);
  v.field({.name = "context",
           .doc = "Memory a process holds before its first tensor: context and loaded kernels.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 1e11},
          d.context);
  v.field({.name = "matmul_workspace",
           .doc = "Matrix-library workspace per handle and stream.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 1e11},
          d.matmul_workspace);
  v.field({.name = "efficiency", .doc = "How close to the peaks kernels get."}, d.efficiency);
  v.field(
      {.name = "measured_kernels",
       .doc = "File in platforms/devices/measured: kernels measured on boards of this chip, which "
              "correct modelled ones near them; empty = none."},
      d.measured_kernels);
  v.field({.name = "derived_from",
           .doc = "Device whose fitted efficiencies these are scaled from; empty = own."},
          d.derived_from);
  v.field({.name = "sources", .doc = "Field: where its figure comes from."}, d.sources);
}

}  // namespace lockstep
