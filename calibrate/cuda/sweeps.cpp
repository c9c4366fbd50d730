// Lists the sizes that the CUDA probes measure. The shapes range from launch-bound to compute-bound
// products, and include layers of models that the shipped scenarios train.
#include "cuda/sweeps.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::cuda {

std::vector<GemmShape> gemm_shapes(bool quick) {
  if (quick) return {{256, 256, 256}, {2048, 2048, 2048}};
  return {
      {128, 128, 128},
      {256, 256, 256},
      {512, 512, 512},
      {1024, 1024, 1024},
      {2048, 2048, 2048},
      {4096, 4096, 4096},
      {8192, 8192, 8192},
      // Dimensions just above a whole number of tiles, and dimensions that are odd or no multiple
      // of 8.
      {4097, 4097, 4096},
      {4096, 4096, 4100},
      {2050, 2050, 2050},
      // GPT-2 (768 wide) at 1024 and 8192 tokens: qkv, projection, both MLP products, vocabulary.
      {1024, 2304, 768},
      {1024, 768, 3072},
      {8192, 2304, 768},
      {8192, 768, 768},
      {8192, 3072, 768},
      {8192, 768, 3072},
      {8192, 50257, 768},
      // Classifiers of VGG-16 and ResNet-50 at batch 32, and VGG's weight gradient.
      {32, 4096, 25088},
      {32, 4096, 4096},
      {32, 1000, 2048},
      {25088, 4096, 32},
      // Pointwise convolutions of ConvNeXt-L as products.
      {25088, 768, 192},
      {6272, 3072, 768},
  };
}

std::vector<ConvolutionShape> convolution_shapes(bool quick) {
  if (quick) return {{8, 64, 56, 64, 3, 1}};
  return {
      {32, 3, 224, 64, 3, 1},   {32, 64, 224, 64, 3, 1},   {32, 128, 112, 128, 3, 1},
      {32, 256, 56, 256, 3, 1}, {32, 512, 28, 512, 3, 1},  {32, 512, 14, 512, 3, 1},
      {32, 3, 224, 64, 7, 2},   {32, 64, 56, 64, 3, 1},    {32, 64, 56, 256, 1, 1},
      {32, 256, 56, 128, 1, 1}, {32, 128, 56, 128, 3, 2},  {32, 512, 28, 128, 1, 1},
      {32, 256, 14, 256, 3, 1}, {32, 1024, 14, 256, 1, 1}, {32, 512, 7, 512, 3, 1},
      {32, 512, 7, 2048, 1, 1},
  };
}

std::vector<double> sizes(double first, double last, double factor) {
  std::vector<double> result;
  for (double size = first; size <= last * (1 + 1e-9); size *= factor) result.push_back(size);
  return result;
}

std::vector<double> copy_sizes(bool quick) {
  return quick ? sizes(64 << 10, 16 << 20, 16) : sizes(4 << 10, 256 << 20, 4);
}

std::vector<double> collective_sizes(bool quick) {
  return quick ? sizes(1 << 10, 1 << 20, 32) : sizes(1 << 10, 256 << 20, 4);
}

int launches_per_sample(double seconds_each, double target_seconds, int most) {
  if (!(seconds_each > 0)) return most;
  return static_cast<int>(std::clamp(std::ceil(target_seconds / seconds_each), 1.0, 1.0 * most));
}

int operand_sets(double bytes_per_set, double l2_bytes, int most) {
  if (!(bytes_per_set > 0)) return 1;
  return static_cast<int>(std::clamp(std::ceil(2 * l2_bytes / bytes_per_set) + 1, 1.0, 1.0 * most));
}

}  // namespace lockstep::cuda
