// How close to its peaks a device gets: the `efficiency:` block of platforms/devices/*.yaml. Few
// numbers with a physical meaning each; what depends on the shape of a kernel rather than on the
// device stands in costs/kernel_model.hpp. Meaning, origin and residuals: docs/device-models.md.
#pragma once

#include "core/fields.hpp"

namespace lockstep {

struct Efficiency {
  // Above 1 only where a board boosts beyond the clock its data sheet states the peak for.
  double matmul = 0.85;       // best large GEMM, fraction of the matrix peak of its mode (fact 132)
  double matmul_fp32 = 0.85;  // likewise in plain fp32, without matrix units
  double convolution = 0.70;  // best dense convolution on matrix units
  double convolution_fp32 = 0.70;  // likewise in plain fp32, as an implicit product
  double attention = 0.60;         // fused attention forward at head size 128, likewise
  // Grouped and depthwise convolutions outside the matrix units: of 64 multiply-adds a
  // multiprocessor and clock (of the fp32 peak if less).
  double vector = 0.35;
  double memory = 0.85;  // long streaming kernels: fraction of memory bandwidth (fact 128)
  double kernel_floor_seconds = 3e-6;  // shortest device time of one kernel (fact 128)
  double relative_error = 0.12;        // one sigma of log(predicted / measured) over the fit's rows
};

template <class Visitor>
void describe(Visitor& v, Efficiency& e) {
  v.field({.name = "matmul",
           .doc = "Best large matrix product, fraction of the matrix peak.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1.2},
          e.matmul);
  v.field({.name = "matmul_fp32",
           .doc = "Best large product in plain fp32, fraction of the lanes that can multiply.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1.2},
          e.matmul_fp32);
  v.field({.name = "convolution",
           .doc = "Best dense convolution on matrix units, fraction of their peak.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1.2},
          e.convolution);
  v.field({.name = "convolution_fp32",
           .doc = "Best plain fp32 convolution as an implicit product, fraction of the lanes that "
                  "can multiply.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1.2},
          e.convolution_fp32);
  v.field({.name = "attention",
           .doc = "Fused attention, forward, head size 128, fraction of the matrix peak.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1},
          e.attention);
  v.field({.name = "vector",
           .doc = "Grouped and depthwise convolutions, fraction of 64 multiply-adds a "
                  "multiprocessor and clock.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1},
          e.vector);
  v.field({.name = "memory",
           .doc = "Long streaming kernels, fraction of the memory bandwidth.",
           .unit = Dimension::fraction,
           .min = 0.01,
           .max = 1},
          e.memory);
  v.field({.name = "kernel_floor",
           .doc = "Shortest device time of one kernel.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e-3},
          e.kernel_floor_seconds);
  v.field({.name = "relative_error",
           .doc = "One standard deviation of log(predicted / measured) over the calibration rows.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 1},
          e.relative_error);
}

}  // namespace lockstep
