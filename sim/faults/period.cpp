// Daly's higher-order estimate of the best checkpoint interval.
#include <cmath>

#include "faults/long_run.hpp"

namespace lockstep {

double best_checkpoint_period(double write_seconds, double mean_time_between_failures) {
  const double write = write_seconds, between = mean_time_between_failures;
  if (std::isinf(between) || write >= 2 * between) return between;
  const double root = std::sqrt(write / (2 * between));
  return std::sqrt(2 * write * between) * (1 + root / 3 + root * root / 9) - write;
}

}  // namespace lockstep
