// Fractions of its peaks that a device reaches: the `efficiency:` block of
// platforms/devices/*.yaml. Each of the few numbers has a physical meaning. They describe the
// device; the dependence on a kernel's shape is in costs/kernel_model.hpp. docs/device-models.md
// has their meaning, origin and residuals.
#pragma once

#include "core/fields.hpp"

namespace lockstep {

// Fractions of a device's peaks. A fraction is above 1 only if a board boosts beyond the clock for
// which its data sheet states the peak.
struct Efficiency {
  // Best large GEMM, as a fraction of the matrix peak of its mode (fact 132).
  double matmul = 0.85;
  double matmul_fp32 = 0.85;       // in plain fp32: fraction of the lanes that can multiply
  double matmul_fp8 = 0.71;        // as `matmul`, in fp8 and fp4 (fact 132)
  double convolution = 0.70;       // best dense convolution on matrix units
  double convolution_fp32 = 0.70;  // as matmul_fp32, for convolutions as implicit products
  // Forward of fused attention at head size 128, as a fraction of the matrix peak, or of the fp32
  // lanes that can multiply if the values have 32 bits or the device lacks the mode.
  double attention = 0.60;
  // Depthwise convolutions, which run outside of the matrix units: fraction of 64 multiply-adds per
  // multiprocessor and clock, or of the fp32 peak if the peak is less.
  double vector = 0.35;
  double memory = 0.85;  // long streaming kernels: fraction of memory bandwidth (fact 128)
  double kernel_floor_seconds = 3e-6;  // shortest device time of one kernel (fact 128)
  // Standard deviation of log(predicted / measured) over the fit's rows
  double relative_error = 0.12;
};

template <class Visitor>
void describe(Visitor& v, Efficiency& e) {
  v.field("matmul", e.matmul, "Best large matrix product, fraction of the matrix peak.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1.2});
  v.field("matmul_fp32", e.matmul_fp32,
          "Best large product in plain fp32, fraction of the lanes that can multiply.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1.2});
  v.field("matmul_fp8", e.matmul_fp8, "Best large product in fp8 or fp4, fraction of its peak.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1.2});
  v.field("convolution", e.convolution,
          "Best dense convolution on matrix units, fraction of their peak.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1.2});
  v.field("convolution_fp32", e.convolution_fp32,
          "Best plain fp32 convolution as an implicit product, fraction of the lanes that can "
          "multiply.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1.2});
  v.field("attention", e.attention,
          "Fused attention, forward, head size 128, fraction of the matrix peak.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1});
  v.field("vector", e.vector,
          "Grouped and depthwise convolutions, fraction of 64 multiply-adds a multiprocessor and "
          "clock.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1});
  v.field("memory", e.memory, "Long streaming kernels, fraction of the memory bandwidth.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 1});
  v.field("kernel_floor", e.kernel_floor_seconds, "Shortest device time of one kernel.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e-3});
  v.field("relative_error", e.relative_error,
          "One standard deviation of log(predicted / measured) over the calibration rows.",
          {.unit = Dimension::fraction, .min = 0, .max = 1});
}

}  // namespace lockstep
