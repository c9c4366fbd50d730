// A training run of days, event by event: training, checkpoints, failures, restarts. What a step
// takes comes from its simulation.
#pragma once

#include <cstdint>
#include <vector>

#include "faults/failures.hpp"
#include "faults/options.hpp"
#include "results/record.hpp"

namespace lockstep {

struct LongRun {
  double steps = 0;  // of all nodes
  // By the number of nodes that take part, in steps of all nodes; 0 = too few. The last is of all.
  std::vector<double> steps_per_second;
  // A lost node stops nobody, and nothing is lost with it; one that comes back joins at once.
  bool independent_workers = false;
  double write_seconds = 0, read_seconds = 0;  // a checkpoint
  double steps_between_checkpoints = 0;        // infinity = none
  int state_nodes = 0;  // workers' nodes that keep the state: their loss does stop the others
  int servers = 0;      // on hosts of their own
  int workers_per_node = 1;
  int workers = 0;  // of the job, its last node may not be full; 0 = all are
  FailureSpeeds speeds;
  Faults faults;

  int workers_of(int node) const;
  double workers_of_a_node() const;  // on average
  int nodes() const { return static_cast<int>(steps_per_second.size()) - 1; }
  double failure_free_seconds() const;  // checkpoints included
};

// Where the time went; the five add up to `seconds`.
struct LongRunResult {
  bool finished = false;  // within `most_times` of failure_free_seconds()
  double seconds = 0;
  double steps = 0;        // that last
  double training = 0;     // on steps that last
  double lost = 0;         // on steps that were trained again
  double checkpoints = 0;  // writing
  double down = 0;         // detection, restart, reading
  double waiting = 0;      // for nodes
  int failures = 0;
  int interruptions = 0;    // failures that stopped the job or its restart
  double node_seconds = 0;  // of nodes that take part, over all the time
  double away_seconds = 0;  // of GPUs whose nodes have left or have not joined yet
};
inline constexpr double most_times = 100;

// `run`: number of the repetition.
LongRunResult play(const LongRun& plan, std::uint64_t seed, int run);

// Seconds of work between two checkpoints that end the run soonest, to higher order (Daly, "A higher
// order estimate of the optimum checkpoint interval for restart dumps", 2006; its first term is
// Young's sqrt(2 write M), 1974). No failures (infinity) = no checkpoints (infinity).
double best_checkpoint_period(double write_seconds, double mean_time_between_failures);

// Plays plan.faults.runs runs. The figures of checkpoints and the price are left to the caller.
RunWithFailures play_all(const LongRun& plan, std::uint64_t seed);

}  // namespace lockstep
