// Kernels measured one by one on boards of a chip, as measured over modelled time by shape. The
// measurements correct the time of modelled kernels of similar shape. The tables are
// platforms/devices/measured/*.csv, written by lockstep-fit (docs/device-models.md).
#pragma once

#include <array>
#include <string>
#include <vector>

namespace lockstep {

// One measurement: a kernel's shape and the model's error there.
struct MeasuredKernel {
  // Logarithms to base 2 of a product's batch, m, n, k, or of a convolution's images, input
  // channels, output channels and edge of the output.
  std::array<double, 4> log2_size{};
  double log_ratio = 0;  // log(measured / modelled)
};

// The measurements of a chip, by kind of kernel.
struct MeasuredKernels {
  std::vector<MeasuredKernel> half_products;   // in half precision, on matrix units
  std::vector<MeasuredKernel> plain_products;  // in plain fp32
  std::vector<MeasuredKernel> convolutions;    // 3 x 3, stride 1, plain fp32
};

// Reads a table. Throws ConfigError with the line that is no measurement.
MeasuredKernels read_measured_kernels(const std::string& path);

// log(measured / modelled) for any size: the weighted mean of the measured kernels (Gaussian kernel
// regression). A kernel at a distance of d octaves has the weight exp(-d^2). The model itself, with
// a ratio of 1, has a constant weight, which decides where nothing near was measured.
double log_ratio_at(const std::vector<MeasuredKernel>& kernels,
                    const std::array<double, 4>& log2_size);

}  // namespace lockstep
