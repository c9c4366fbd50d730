// Kernels measured one by one on boards of a chip, as measured over modelled time by shape:
// platforms/devices/measured/*.csv, written by lockstep-fit (docs/device-models.md).
#pragma once

#include <array>
#include <string>
#include <vector>

namespace lockstep {

struct MeasuredKernel {
  std::array<double, 4> log2_size{};  // of products batch, m, n, k; of convolutions images,
                                      // channels in and out, edge of the output
  double log_ratio = 0;               // log(measured / modelled)
};

struct MeasuredKernels {
  std::vector<MeasuredKernel> half_products;   // in half precision, on matrix units
  std::vector<MeasuredKernel> plain_products;  // in plain fp32
  std::vector<MeasuredKernel> convolutions;    // 3 x 3, stride 1, plain fp32
};

MeasuredKernels read_measured_kernels(const std::string& path);  // throws ConfigError

// log(measured / modelled) of a size that may lie between the measured ones: their mean, each with
// the weight exp(-d^2) of its distance in octaves, and the law itself (ratio 1) with a weight that
// decides where nothing near was measured.
double log_ratio_at(const std::vector<MeasuredKernel>& kernels,
                    const std::array<double, 4>& log2_size);

}  // namespace lockstep
