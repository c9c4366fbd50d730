// Builders of long runs, used by the tests of this room.
#pragma once

#include <limits>

#include "faults/long_run.hpp"

namespace lockstep {

// A run in which all nodes do a step a second together. Failed nodes are back at once, and stops
// cost nothing.
inline LongRun gang(int nodes, double steps, double failures_of_one_node) {
  LongRun plan;
  plan.steps = steps;
  plan.steps_per_second.assign(static_cast<std::size_t>(nodes) + 1, 0);
  plan.steps_per_second.back() = 1;
  plan.steps_between_checkpoints = std::numeric_limits<double>::infinity();
  plan.speeds.node = failures_of_one_node;
  plan.faults.detection_seconds = plan.faults.restart_seconds = 0;
  plan.faults.repair_seconds = 0;
  return plan;
}

// A gang that continues with the remaining nodes, down to one node.
inline LongRun elastic(int nodes, double steps, double failures_of_one_node) {
  LongRun plan = gang(nodes, steps, failures_of_one_node);
  for (int n = 1; n <= nodes; ++n) {
    plan.steps_per_second[static_cast<std::size_t>(n)] = static_cast<double>(n) / nodes;
  }
  return plan;
}

}  // namespace lockstep
