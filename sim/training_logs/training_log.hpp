// Reads logs of training programs: step times and memory of a GPU. training_log() reads all
// formats; `import-metrics` and `diagnose` use it (docs/import-metrics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The values of one line, written after step `step`. A rate or a time is the mean over the steps
// since the previous line. A value that the line lacks is absent.
struct LogEntry {
  std::int64_t step = 0;
  // Seconds of one step.
  std::optional<double> seconds;
  // Time at which the line was written, in seconds after any origin.
  std::optional<double> clock;
  // The rate of one GPU or of all GPUs; TrainingLog::per_gpu says which.
  std::optional<double> tokens_per_second;
  // The rate of all GPUs together.
  std::optional<double> samples_per_second;
  // Peaks of one GPU's allocated memory and of its reserved memory so far, in bytes.
  std::optional<double> allocated;
  std::optional<double> reserved;
};

// A log in terms that all programs share.
struct TrainingLog {
  std::string file;
  // The program's name, in the spelling for people.
  std::string program;
  // One entry for each step that the log names, by ascending step. The last line of a step counts.
  std::vector<LogEntry> entries;
  // Whether tokens_per_second is the rate of one GPU.
  bool per_gpu = false;
  // Mean seconds of a step over the whole run, if a summary states it.
  std::optional<double> mean_seconds;
  // Samples of one step over all GPUs, if the log states them.
  std::optional<double> global_batch;
  // Number of GPUs, if the log has the rate of one GPU and that of all GPUs.
  std::optional<std::int64_t> gpus;
  // Notes for the user.
  std::vector<std::string> notes;
};

// Reads text logs of torchtitan, Megatron-LM, nanotron, DeepSpeed and Hugging Face's Trainer,
// trainer_state.json, LLaMA-Factory's trainer_log.jsonl, JSONL, and CSV as W&B and TensorBoard
// export it. The program is recognised by the lines. Throws ConfigError if the file is unreadable,
// or if it gives neither an entry nor a mean step time.
TrainingLog training_log(const std::string& path);

}  // namespace lockstep
