// Logs of training programs: step times and memory of a GPU. Use training_log() for any of the
// formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The values of one line, after `step` steps. A rate or a time is the mean over the steps since the
// previous line.
struct LogEntry {
  std::int64_t step = 0;
  std::optional<double> seconds;  // of one step
  std::optional<double> clock;    // seconds, from any origin, at which the line was written
  std::optional<double> tokens_per_second;   // of one GPU, or of all: TrainingLog::per_gpu
  std::optional<double> samples_per_second;  // of all GPUs
  std::optional<double> allocated;           // bytes, the peak so far of one GPU
  std::optional<double> reserved;
};

struct TrainingLog {
  std::string file;
  std::string program;                 // for people
  std::vector<LogEntry> entries;       // by step; one for each
  bool per_gpu = false;                // tokens_per_second is of one GPU
  std::optional<double> mean_seconds;  // of a step, over the whole run, where a summary says it
  std::optional<double> global_batch;  // samples of one step
  std::optional<std::int64_t> gpus;    // where rates of one and of all GPUs stand side by side
  std::vector<std::string> notes;
};

// Text logs of torchtitan, Megatron-LM, nanotron, DeepSpeed and Hugging Face's Trainer,
// trainer_state.json, LLaMA-Factory's trainer_log.jsonl, JSONL, and CSV as W&B and TensorBoard
// export it. Throws ConfigError if the file is unreadable, or no line has a known format.
TrainingLog training_log(const std::string& path);

}  // namespace lockstep
