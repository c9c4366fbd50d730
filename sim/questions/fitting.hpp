// Jobs that fit into memory: the least changes to a job that does not, its largest micro-batch, the fewest
// GPUs. Every answer is a whole job, checked by a prediction of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// A job that fits.
struct FittingJob {
  std::vector<std::string> changes;  // what differs from the point, in words; empty = nothing
  Scenario scenario;                 // of this job alone
  Prediction prediction;             // of its own batch, GPUs and settings
};
// "activation checkpointing and micro-batch 2 with 8 accumulation steps (312 ms a step, 2.1 GiB free,
// $12.30)".
std::string fitting_text(const FittingJob& job);

// Up to `most` jobs that fit, with the fewest changes to the point first; none has all the changes of
// one before it. Changes: a smaller micro-batch, activation checkpointing or more of it, full
// sharding, offload to the host or none. The samples of an optimizer step stay. Where these are fewer
// than `most`, a last job on more GPUs, in doublings: `batch.global` stays there, and a batch per GPU
// makes the global one grow. Empty = none of these fits. `scales` as in expand().
std::vector<FittingJob> least_changes(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales, std::size_t most = 3);

// The point with the largest micro-batch that fits, its accumulation steps kept, and so with a global
// batch of its own. Nothing when one sample does not fit.
std::optional<FittingJob> largest_micro_batch(const Scenario& scenario, const Point& point,
                                              const std::vector<CostScale>& scales);

// The point, otherwise as it is written, on the fewest GPUs that it fits on, of 1, 2, 4, ... and its
// own. Nothing when it fits on none of them.
std::optional<FittingJob> fewest_gpus(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales);

}  // namespace lockstep
