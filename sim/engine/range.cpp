#include "engine/range.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

// Side by side: one after the other waits for each comparison or addition.
constexpr std::size_t width = 8;

}  // namespace

LOCKSTEP_WIDE_VECTORS
Range range_of(std::span<const double> values) {
  std::array<double, width> low, high;
  low.fill(values[0]);
  high.fill(values[0]);
  std::size_t i = 0;
  for (; i + width <= values.size(); i += width) {
    for (std::size_t k = 0; k < width; ++k) {
      low[k] = values[i + k] < low[k] ? values[i + k] : low[k];
      high[k] = values[i + k] > high[k] ? values[i + k] : high[k];
    }
  }
  for (; i < values.size(); ++i) {
    low[0] = std::min(low[0], values[i]);
    high[0] = std::max(high[0], values[i]);
  }
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

LOCKSTEP_WIDE_VECTORS
double sum_of_products(std::span<const double> a, std::span<const double> b) {
  std::array<double, width> sums{};
  std::size_t i = 0;
  for (; i + width <= a.size(); i += width) {
    for (std::size_t k = 0; k < width; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace lockstep
