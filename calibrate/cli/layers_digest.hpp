// Converts the results of a LayersJob's ranks to parts of a profile and a line of the summary,
// after the ranks have ended. Includes no LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/layers.hpp"
#include "costs/profile.hpp"

namespace lockstep {

// One line of the summary that is printed at the end. Times are seconds.
struct Measured {
  std::string model, precision;
  std::int64_t batch = 0;
  std::size_t repetitions = 0, disturbed = 0;
  double forward = 0, backward = 0, update = 0;  // medians of plain steps
  double layers_over_step = 0;  // sum of the layers divided by the plain step, before scaling
  double spread = 0;            // interquartile range divided by the median of the step
  double layer_spread = 0;      // median over layers of (p90 - median) / median
  double step_sigma = 0;        // ProfileBatch::step_sigma
  double peak = 0;              // bytes
  std::string skipped;          // reason for having measured nothing
};

// Adds the layers and the update of a model. `ranks`: one result for each rank.
void digest(const LayersJob& job, const std::vector<nlohmann::json>& ranks, Profile& profile,
            Measured& line);
// For GPUs: sets the profile's host times of an operator in forward, backward and updates, and the
// memory that libraries hold, to the medians over all batches that have these values. Launch times
// stay unchanged.
void summarise_models(Profile& profile);
// Adds copies and updates by size. On a GPU, copies that the CUDA probe has measured stay.
void digest_streams(const LayersJob& job, const std::vector<nlohmann::json>& ranks,
                    Profile& profile);
// Adds the computation of the job's hook, and replaces the profile's values for the same settings.
void digest_hook(const LayersJob& job, const std::vector<nlohmann::json>& ranks, Profile& profile);

}  // namespace lockstep
