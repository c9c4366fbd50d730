// Arithmetic on tensor sizes that throws ModelError instead of wrapping around. All sizes that
// follow from a model file or a scenario must be computed with it, because a user may ask for any
// size.
#pragma once

#include <cstdint>

#include "workload/model_error.hpp"

namespace lockstep {

inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw ModelError("the size does not fit in 63 bits");
  return result;
}

inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw ModelError("the size does not fit in 63 bits");
  return result;
}

inline std::int64_t checked_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) throw ModelError("the size does not fit in 63 bits");
  return result;
}

}  // namespace lockstep
