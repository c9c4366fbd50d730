// Turns the results of a LayersJob's ranks into a profile and a line of the summary. Call it after
// the ranks have ended. No LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/layers.hpp"
#include "costs/profile.hpp"

namespace lockstep {

// One line of the summary that is printed at the end.
struct Measured {
  std::string model, precision;
  std::int64_t batch = 0;
  std::size_t repetitions = 0, disturbed = 0;
  double forward = 0, backward = 0, update = 0;  // plain, medians
  double layers_over_step = 0;                   // sum of the layers / plain step, before scaling
  double spread = 0;                             // interquartile range / median of the step
  double layer_spread = 0;                       // median over layers of (p90 - median) / median
  double step_sigma = 0;                         // ProfileBatch::step_sigma
  double peak = 0;                               // bytes
  std::string skipped;                           // why nothing was measured
};

// Layers and update of a model; `ranks`: the ranks' values, one each.
void digest(const LayersJob& job, const std::vector<nlohmann::json>& ranks, Profile& profile,
            Measured& line);
// Sets host times of an operator in forward, backward and updates, and memory that libraries keep,
// to the medians over all batches of the profile that have them (GPUs only). The profile's launch
// times are unchanged.
void summarise_models(Profile& profile);
// Copies and updates by size. Copies that a GPU's own probe has measured stay.
void digest_streams(const LayersJob& job, const std::vector<nlohmann::json>& ranks,
                    Profile& profile);
// The work of the job's hook; replaces the profile's values for the same settings.
void digest_hook(const LayersJob& job, const std::vector<nlohmann::json>& ranks, Profile& profile);

}  // namespace lockstep
