// Loops over lanes that compilers turn into vector instructions. Each loop advances two vectors at
// once, because in a single chain of comparisons or additions each operation would wait for the
// result of the one before.
#include "engine/range.hpp"

namespace lockstep {

// Values beyond the last pair of vectors are visited one after the other.
LOCKSTEP_WIDE_VECTORS
Range range_of(std::span<const double> values) {
  constexpr std::size_t step = 2 * wide_lanes;
  Range range{values[0], values[0]};
  std::size_t i = 0;
  if (values.size() >= step) {
    const WideInArray* next = wide(values.data());
    Wide low = next[0], low2 = next[1], high = low, high2 = low2;
    for (i = step; i + step <= values.size(); i += step) {
      next = wide(&values[i]);
      low = next[0] < low ? next[0] : low;
      low2 = next[1] < low2 ? next[1] : low2;
      high = next[0] > high ? next[0] : high;
      high2 = next[1] > high2 ? next[1] : high2;
    }
    low = low2 < low ? low2 : low;
    high = high2 > high ? high2 : high;
    for (std::size_t k = 0; k < wide_lanes; ++k) range.include({low[k], high[k]});
  }
  for (; i < values.size(); ++i) range.include({values[i], values[i]});
  return range;
}

LOCKSTEP_WIDE_VECTORS
Range add_scaled(std::span<double> values, double scale, std::span<const double> steps) {
  Range range;
  std::size_t i = 0;
  if (values.size() >= wide_lanes) {
    Wide low = never + Wide{}, high = -low;
    for (; i + wide_lanes <= values.size(); i += wide_lanes) {
      const Wide value = *wide(&values[i]) + scale * *wide(&steps[i]);
      low = value < low ? value : low;
      high = value > high ? value : high;
      *wide(&values[i]) = value;
    }
    for (std::size_t k = 0; k < wide_lanes; ++k) range.include({low[k], high[k]});
  }
  for (; i < values.size(); ++i) {
    values[i] += scale * steps[i];
    range.include({values[i], values[i]});
  }
  return range;
}

LOCKSTEP_WIDE_VECTORS
double sum_of_products(std::span<const double> a, std::span<const double> b) {
  constexpr std::size_t step = 2 * wide_lanes;
  Wide sums{}, sums2{};
  std::size_t i = 0;
  for (; i + step <= a.size(); i += step) {
    sums += wide(&a[i])[0] * wide(&b[i])[0];
    sums2 += wide(&a[i])[1] * wide(&b[i])[1];
  }
  sums += sums2;
  double sum = 0;
  for (std::size_t k = 0; k < wide_lanes; ++k) sum += sums[k];
  for (; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace lockstep
