// A job of `lockstep-calibrate calibrate` for its ranks, which is passed as words of a command
// line. Includes no LibTorch.
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
  std::string folder;  // folder of the run
  std::string result_file;
  std::string device = "cpu";
  std::string model;  // "" = copies and updates by size
  // If set, the hook's computation on buckets of the model's gradients is measured instead of
  // layers.
  std::optional<HookSettings> hook;
  StepOptions step;
  OptimizerSpec optimizer;
  StoppingRule rule;
  // Time, without pauses, after which `rule.minimum` repetitions are enough.
  double most_seconds = 60;
  double pause_seconds = 0;        // pause before each step
  std::int64_t most_elements = 0;  // largest size of copies and updates
};

std::vector<std::string> to_words(const LayersJob& job);
LayersJob layers_job_from_words(const std::vector<std::string>& words);
std::string layers_result_file(const std::string& folder, int rank);

}  // namespace lockstep
