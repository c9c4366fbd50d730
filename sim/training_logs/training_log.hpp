// Logs of training programs: step times and memory of a GPU. Use training_log() for any of the
// formats; `import-metrics` and `diagnose` do (docs/import-metrics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The values of one line, after `step` steps. A rate or a time is the mean over the steps since the
// previous line. Absent = the line does not say it.
struct LogEntry {
  std::int64_t step = 0;
  // Seconds of one step.
  std::optional<double> seconds;
  // Seconds, from any origin, at which the line was written.
  std::optional<double> clock;
  // The rate of one GPU or of all GPUs; TrainingLog::per_gpu says which.
  std::optional<double> tokens_per_second;
  // The rate of all GPUs together.
  std::optional<double> samples_per_second;
  // Bytes: the peak so far of one GPU's allocated memory, and of its reserved memory.
  std::optional<double> allocated;
  std::optional<double> reserved;
};

// A log in terms that all programs share.
struct TrainingLog {
  std::string file;
  // The program's name, for people.
  std::string program;
  // Ascending steps, one entry for each step that the log names.
  std::vector<LogEntry> entries;
  // Whether tokens_per_second is the rate of one GPU.
  bool per_gpu = false;
  // Mean seconds of a step over the whole run, where a summary says it.
  std::optional<double> mean_seconds;
  // Samples of one step over all GPUs, where the log says it.
  std::optional<double> global_batch;
  // Number of GPUs, where rates of one and of all GPUs stand side by side.
  std::optional<std::int64_t> gpus;
  // Remarks for a person.
  std::vector<std::string> notes;
};

// Reads text logs of torchtitan, Megatron-LM, nanotron, DeepSpeed and Hugging Face's Trainer,
// trainer_state.json, LLaMA-Factory's trainer_log.jsonl, JSONL, and CSV as W&B and TensorBoard
// export it. The program is told by the lines. Throws ConfigError if the file is unreadable, or no
// line has a known format.
TrainingLog training_log(const std::string& path);

}  // namespace lockstep
