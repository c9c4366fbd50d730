// How long a closed loop takes, before anything is measured.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"

namespace lockstep {

struct LoopEstimate {
  double first =
      0;            // seconds: layers, copies, updates and collectives, once; 0 with a kept profile
  double runs = 0;  // all runs, with the layers measured before each
  double total() const { return first + runs; }
};
// `points`: collectives times sizes to measure. `steps`: modelled seconds of a step of each
// strategy.
LoopEstimate estimate_loop(const ClosedLoopOptions& options, std::size_t points,
                           const std::vector<double>& steps);

std::string about(double seconds);  // "50 s", "4 min", "2.5 h"

}  // namespace lockstep
