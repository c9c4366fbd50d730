// Jobs that fit into memory: the smallest changes to a job that does not fit, its largest
// micro-batch, its fewest GPUs. Every answer is a complete job that has been simulated.
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
  Scenario scenario;                 // only this job
  Prediction prediction;             // of the changed job
};
// A phrase such as "activation checkpointing and micro-batch 2 with 8 accumulation steps (312 ms a
// step, 2.1 GiB free, $12.30)".
std::string fitting_text(const FittingJob& job);

// Returns up to `most` jobs that fit, starting with the fewest changes to the point. Possible
// changes are a smaller micro-batch, activation checkpointing (or a mode that recomputes more),
// full sharding, and turning FSDP's offload to the host on or off. The samples of an optimizer step
// stay the same. No job has all the changes of an earlier one. If fewer than `most` jobs are found,
// adds a job on the smallest number of 2, 4, ... times the GPUs that fits; its global batch is
// larger unless the scenario gives the global batch. Empty if nothing fits. `scales` has the
// meaning that it has in expand().
std::vector<FittingJob> least_changes(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales, std::size_t most = 3);

// The point with the largest micro-batch that fits. The number of accumulation steps stays the
// same, so the global batch changes. Nothing if not even one sample fits, or if the simulation
// fails.
std::optional<FittingJob> largest_micro_batch(const Scenario& scenario, const Point& point,
                                              const std::vector<CostScale>& scales);

// The unchanged point on the fewest GPUs on which it fits, out of 1, 2, 4, ... and its own number.
// Nothing if it fits on no such number, or if the simulation fails.
std::optional<FittingJob> fewest_gpus(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales);

}  // namespace lockstep
