// The job of one replay, which a separate process reads from a file, and the JSON of its result.
// Includes no LibTorch.
#pragma once

#include <string>

#include "convergence/replay.hpp"
#include "workload/model.hpp"

namespace lockstep {

struct ReplayJob {
  std::string model;
  StepOptions step;                // training step of one worker's micro-batch
  std::string schedule;            // file
  std::string data;                // a name or a folder, for read_data_set()
  std::int64_t train_samples = 0;  // number of training images, from the first on; 0 = all
  // If true, the replay does not train on the last sixth of the training images, and evaluates on
  // them instead of on the test set. Study::best_recipes() chooses by this accuracy.
  bool held_out = false;
  LearningPlan plan;
};

std::string to_json(const ReplayJob& job);
ReplayJob replay_job_from_json(const std::string& text);

std::string to_json(const ReplayResult& result);
ReplayResult replay_result_from_json(const std::string& text);  // throws std::runtime_error

}  // namespace lockstep
