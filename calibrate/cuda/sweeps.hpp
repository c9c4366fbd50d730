// The sizes that the CUDA probes measure. `quick` selects a few sizes, to check that all probes
// work.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cuda {

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
};
// Squares from launch-bound to compute-bound, products of models (transformer blocks, classifiers),
// and shapes just above a whole number of tiles or without the alignment that tensor cores need
// (fact 129).
std::vector<GemmShape> gemm_shapes(bool quick);

struct ConvolutionShape {
  int batch = 0, in_channels = 0, size = 0, out_channels = 0, kernel = 0, stride = 1;
};
std::vector<ConvolutionShape> convolution_shapes(bool quick);  // layers of VGG-16 and ResNet-50

// `first` times powers of `factor`, up to and including `last`.
std::vector<double> sizes(double first, double last, double factor);
std::vector<double> copy_sizes(bool quick);
std::vector<double> collective_sizes(bool quick);

// Number of launches (1 to `most`) with which a sample lasts about `target_seconds`.
int launches_per_sample(double seconds_each, double target_seconds, int most);

// Number of operand sets (at most `most`) to use in turn, so that between two uses of a set at
// least twice the cache of `l2_bytes` is accessed and the set is no longer in it.
int operand_sets(double bytes_per_set, double l2_bytes, int most);

}  // namespace lockstep::cuda
