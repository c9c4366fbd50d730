// The smallest and largest of many values, and their sum, in one fast pass.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

// Loops over lanes take most of a simulation with thousands of them: compiled for wide vectors,
// too, which are chosen when the program starts. Each value's operations and their order, and with
// them its bytes, stay the same. With the sanitizers' start-up code that choice is not safe.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_WIDE_VECTORS [[gnu::target_clones("avx2", "default")]]
#else
#define LOCKSTEP_WIDE_VECTORS
#endif

namespace lockstep {

// As many lanes as one operation works on; GCC and Clang compute with these as with one double.
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

// The time of what does not happen.
inline constexpr double never = std::numeric_limits<double>::infinity();
// Seconds; delays shorter than this take no time, or this long.
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
// Added up in an order that depends on nothing but their number.
double sum_of_products(std::span<const double> a, std::span<const double> b);

}  // namespace lockstep
