// Kernels measured one by one on boards of a chip, stored as the ratio of measured to modelled time
// at their sizes. The ratios correct the time of modelled kernels of similar size. The tables are
// platforms/devices/measured/*.csv, which lockstep-fit writes (docs/device-models.md).
#pragma once

#include <array>
#include <string>
#include <vector>

namespace lockstep {

// One measurement: a kernel's sizes and the model's error for it.
struct MeasuredKernel {
  // Logarithms to base 2 of the sizes. A product has batch, m, n and k; a convolution has images,
  // input channels, output channels and the edge of the output.
  std::array<double, 4> log2_size{};
  double log_ratio = 0;  // log(measured / modelled)
};

// The measurements of a chip, by kind of kernel.
struct MeasuredKernels {
  std::vector<MeasuredKernel> half_products;   // in half precision, on matrix units
  std::vector<MeasuredKernel> plain_products;  // in plain fp32
  std::vector<MeasuredKernel> convolutions;    // 3 x 3, stride 1, plain fp32
};

// Reads a table. Throws ConfigError at the first line that is no measurement.
MeasuredKernels read_measured_kernels(const std::string& path);

// log(measured / modelled) for any sizes: the weighted mean of the measured kernels (Gaussian
// kernel regression). A measured kernel at a distance of d octaves has the weight exp(-d^2), and 0
// beyond 3 octaves. The model itself, whose ratio is 1, has a constant weight, so that its time
// remains unchanged far from all measurements.
double log_ratio_at(const std::vector<MeasuredKernel>& kernels,
                    const std::array<double, 4>& log2_size);

}  // namespace lockstep
