// How often to write a checkpoint.
#pragma once

namespace lockstep {

// Seconds of work between two checkpoints that end the run soonest, to higher order (Daly, "A higher
// order estimate of the optimum checkpoint interval for restart dumps", 2006; its first term is
// Young's sqrt(2 write M), 1974). No failures (infinity) = no checkpoints (infinity).
double best_checkpoint_period(double write_seconds, double mean_time_between_failures);

}  // namespace lockstep
