// One replay as a file that a process of its own reads, and its answer. No LibTorch.
#pragma once

#include <string>

#include "convergence/replay.hpp"
#include "workload/model.hpp"

namespace lockstep {

struct ReplayJob {
  std::string model;
  StepOptions step;                // of one worker's micro-batch
  std::string schedule;            // file
  std::string data;                // a name or a folder: read_data_set()
  std::int64_t train_samples = 0;  // the first so many; 0 = all
  // Evaluates on the last sixth of the training images, which are then not learned, instead of the
  // test set. A search chooses by this figure.
  bool held_out = false;
  LearningPlan plan;
};

std::string to_json(const ReplayJob& job);
ReplayJob replay_job_from_json(const std::string& text);

std::string to_json(const ReplayResult& result);
ReplayResult replay_result_from_json(const std::string& text);  // throws std::runtime_error

}  // namespace lockstep
