// Repeats PyTorch's choice of a launch for sums of columns, and computes the partial sums that the
// launch keeps in device memory. The names follow setReduceConfig of PyTorch 2.15
// (aten/src/ATen/native/cuda/Reduce.cuh).
#include "memory/column_sum.hpp"

#include <algorithm>
#include <bit>

namespace lockstep {

namespace {

std::int64_t rounded_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t power_below(std::int64_t n, std::int64_t most) {
  return n < most ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n))) : most;
}

// Threads that a multiprocessor holds (CUDA C++ programming guide, technical specifications by
// compute capability).
std::int64_t threads_of_multiprocessor(int compute_capability) {
  switch (compute_capability) {
    case 75:
      return 1024;
    case 86:
    case 87:
    case 89:
    case 120:
      return 1536;
    default:
      return 2048;
  }
}

}  // namespace

double column_sum_scratch(std::int64_t rows, std::int64_t columns, const Device& device) {
  if (rows <= 0 || columns <= 0) return 0;
  constexpr std::int64_t warp = 32, most_threads = 512, fewest_values = 16, most_values = 256;
  const std::int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  const std::int64_t vectors = columns / vector, threads = most_threads / vector;
  const std::int64_t wide = power_below(vectors, threads), high = power_below(rows, threads);
  std::int64_t width = std::min(wide, warp);
  const std::int64_t height = std::min(high, threads / width);
  width = std::min(wide, threads / height);
  if (rows < std::min(16 * height, most_values)) return 0;
  const std::int64_t values = rounded_up(rows, height);  // of a thread
  const std::int64_t grid = rounded_up(vectors, width);
  const std::int64_t target =
      device.multiprocessors *
      (threads_of_multiprocessor(device.compute_capability) / (width * height));
  if (values < most_values || grid > target) return 0;
  const std::int64_t blocks =
      std::max(std::min(rounded_up(target, grid), rounded_up(values, fewest_values)),
               rounded_up(values, most_values));
  if (blocks <= 1) return 0;
  return 4.0 * static_cast<double>(columns * blocks * width * vector);
}

}  // namespace lockstep
