// Jobs that fit into memory: the smallest changes to a job that does not fit, its largest
// micro-batch, its fewest GPUs. Every answer is a complete job, checked by a prediction of its own.
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
  std::vector<std::string> changes;  // differences from the point, in words; empty = none
  Scenario scenario;                 // with this job only
  Prediction prediction;             // of the changed job
};
// A phrase such as "activation checkpointing and micro-batch 2 with 8 accumulation steps (312 ms a
// step, 2.1 GiB free, $12.30)".
std::string fitting_text(const FittingJob& job);

// Returns up to `most` jobs that fit, with the fewest changes to the point first. Changes: a
// smaller micro-batch, activation checkpointing (or a mode that recomputes more), full sharding,
// and turning offload to the host on or off. The samples of an optimizer step stay the same. No job
// has all the changes of an earlier one. If fewer than `most` are found, a job on 2, 4, ... times
// the GPUs is added; there a batch per GPU enlarges the global batch. Empty = nothing fits.
// `scales`: as in expand().
std::vector<FittingJob> least_changes(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales, std::size_t most = 3);

// The point with the largest micro-batch that fits. The accumulation steps stay, so the global
// batch changes. Nothing if one sample does not fit.
std::optional<FittingJob> largest_micro_batch(const Scenario& scenario, const Point& point,
                                              const std::vector<CostScale>& scales);

// The unchanged point on the fewest GPUs on which it fits, among 1, 2, 4, ... and its own number.
// Nothing if it fits on no such number.
std::optional<FittingJob> fewest_gpus(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales);

}  // namespace lockstep
