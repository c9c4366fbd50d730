// The minimum, maximum and sum of many values in one vectorized pass, and the vector type for such
// loops. Used for positions of lanes, of which a simulation may have thousands.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "core/wide_vectors.hpp"

namespace lockstep {

// Number of lanes per vector operation; GCC and Clang compute with such vectors as with one double.
inline constexpr std::size_t wide_lanes = 4;
using Wide [[gnu::vector_size(wide_lanes * sizeof(double))]] = double;
// A Wide at any place of an array of doubles, which need not be aligned for vectors.
using WideInArray [[gnu::vector_size(wide_lanes * sizeof(double)), gnu::aligned(alignof(double)),
                    gnu::may_alias]] = double;
// Views of the wide_lanes doubles that begin at `lanes`.
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

// Smallest and largest of some values; empty if smallest > largest.
struct Range {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
  void include(const Range& other) {
    smallest = std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
  }
};

// REQUIRES: there is at least one value.
Range range_of(std::span<const double> values);
// Adds `scale` times each of `steps` to the values. Returns the range of the sums.
// REQUIRES: `steps` has as many elements as `values`.
Range add_scaled(std::span<double> values, double scale, std::span<const double> steps);
// The sum of a[i] * b[i]. The order of additions depends only on the number of values, so the
// result is the same on every machine.
double sum_of_products(std::span<const double> a, std::span<const double> b);

}  // namespace lockstep
