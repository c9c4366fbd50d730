// The sizes that the CUDA probes measure. `quick` selects a few sizes, to check that all probes
// work.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cuda {

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
};
// Squares from launch-bound to compute-bound, the products of the seed models (transformer blocks,
// classifiers), shapes one off the tile and one off the alignment that tensor cores want (fact
// 129).
std::vector<GemmShape> gemm_shapes(bool quick);

struct ConvolutionShape {
  int batch = 0, in_channels = 0, size = 0, out_channels = 0, kernel = 0, stride = 1;
};
std::vector<ConvolutionShape> convolution_shapes(bool quick);  // layers of VGG-16 and ResNet-50

// Powers of `factor` times `first`, up to and including `last` (where it is reached exactly).
std::vector<double> sizes(double first, double last, double factor);
std::vector<double> copy_sizes(bool quick);
std::vector<double> collective_sizes(bool quick);

// Launches in one sample, so that it lasts about `target_seconds`; 1 to `most`.
int launches_per_sample(double seconds_each, double target_seconds, int most);

// Sets of operands to walk through so that none is found in a cache of `l2_bytes` when its turn
// comes again (twice the cache lies between), but at most `most`.
int operand_sets(double bytes_per_set, double l2_bytes, int most);

}  // namespace lockstep::cuda
