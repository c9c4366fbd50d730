// The requests of `lockstep-calibrate calibrate` to its ranks, as words of a command line. No
// LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costs/hook_work.hpp"
#include "costs/optimizer.hpp"
#include "launch/stopping.hpp"
#include "workload/model.hpp"

namespace lockstep {

struct LayersJob {
  int rank = 0, ranks = 1;
  std::string folder;  // of the run
  std::string result_file;
  std::string device = "cpu";
  std::string model;  // "" = copies and updates by size
  // Then its work on buckets of the model's gradients is measured, and no layers.
  std::optional<HookSettings> hook;
  StepOptions step;
  OptimizerSpec optimizer;
  StoppingRule rule;
  double most_seconds = 60;        // then `rule.minimum` repetitions must do; without pauses
  double pause_seconds = 0;        // before each step
  std::int64_t most_elements = 0;  // of copies and updates
};

std::vector<std::string> to_words(const LayersJob& job);
LayersJob layers_job_from_words(const std::vector<std::string>& words);
std::string layers_result_file(const std::string& folder, int rank);

}  // namespace lockstep
