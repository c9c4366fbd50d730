// The minimum, maximum and sum of many values in one vectorised pass. Used for positions of lanes.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "core/wide_vectors.hpp"

namespace lockstep {

// Number of lanes per vector operation; GCC and Clang compute with such vectors as with one double.
inline constexpr std::size_t wide_lanes = 4;
using Wide [[gnu::vector_size(wide_lanes * sizeof(double))]] = double;
// The same anywhere in an array.
using WideInArray [[gnu::vector_size(wide_lanes * sizeof(double)), gnu::aligned(alignof(double)),
                    gnu::may_alias]] = double;
inline const WideInArray* wide(const double* lanes) {
  return reinterpret_cast<const WideInArray*>(lanes);
}
inline WideInArray* wide(double* lanes) {
  return reinterpret_cast<WideInArray*>(lanes);
}

// The time of an event that does not happen.
inline constexpr double never = std::numeric_limits<double>::infinity();
// Seconds. The executors may shorten a delay below this to 0 or lengthen it to this.
inline constexpr double clock_precision = 1e-12;

struct Range {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
  void include(const Range& other) {
    smallest = std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
  }
};

Range range_of(std::span<const double> values);
// Adds `scale` times each of `steps` to the values; the range they have then.
Range add_scaled(std::span<double> values, double scale, std::span<const double> steps);
// The order of additions depends only on the number of values.
double sum_of_products(std::span<const double> a, std::span<const double> b);

}  // namespace lockstep
