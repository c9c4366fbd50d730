// Daly's higher-order estimate of the best checkpoint interval. If w are the seconds of a write and
// M the mean seconds between failures, the interval is
//
//   sqrt(2 w M) (1 + sqrt(w / 2M) / 3 + (w / 2M) / 9) - w     if w < 2M, else M
//
// The interval counts training only, not the write. docs/faults.md compares it with played runs of
// many intervals.
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
