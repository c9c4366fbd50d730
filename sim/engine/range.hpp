// Vectorised passes over many values that compute their minimum, maximum or sum, and the vector
// type for such loops. Used for the positions of lanes, of which a simulation may have thousands.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "core/wide_vectors.hpp"

namespace lockstep {

// Number of values per vector operation. GCC and Clang compute with such vectors as with one
// double.
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
// In seconds. An executor may shorten a delay that is smaller than this to 0, or lengthen it to
// this.
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
// Adds `scale` * steps[i] to each values[i]. Returns the range of the sums.
// REQUIRES: `steps` has as many elements as `values`.
Range add_scaled(std::span<double> values, double scale, std::span<const double> steps);
// The sum of a[i] * b[i]. The order of additions depends only on the number of values, so the
// result is the same on every machine.
double sum_of_products(std::span<const double> a, std::span<const double> b);

}  // namespace lockstep
