// Recognises the program of a log, and reads its lines into entries. The line readers of all
// programs try each line of a text log, and the program with the most lines wins. JSON is
// recognised by the first character, CSV by the heading.
//
//   torchtitan    step:  3  loss: 4.9  memory: 9.46GiB(64.99%)  tps: 30,768
//   Megatron-LM   iteration 2/ 100 | ... | elapsed time per iteration (ms): 5630.1 |
//   nanotron      iteration: 991 / 1000 | ... | elapsed_time_per_iteration_ms: 45 |
//   DeepSpeed     epoch=0/micro_step=120/global_step=120, ..., CurrSamplesPerSec=219.1, ...
//   Trainer       {'train_runtime': 73.58, 'train_steps_per_second': 1.74, ...}
#include "training_logs/training_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/file_text.hpp"
#include "training_logs/log_text.hpp"

namespace lockstep {
namespace {

bool holds(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// The step number after a key; nothing if there is none or it is implausible.
std::optional<std::int64_t> step_after(std::string_view line, std::string_view key) {
  const auto value = number_after(line, key);
  if (!value || *value < 0 || *value > 1e15) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

// An entry for the step after `key`, with the date and time of the line.
std::optional<LogEntry> entry_of(std::string_view line, std::string_view key) {
  const auto step = step_after(line, key);
  if (!step) return std::nullopt;
  LogEntry entry;
  entry.step = *step;
  entry.clock = clock_in(line);
  return entry;
}

// Reads a line of one program's log. Returns false for all other lines.
using LineReader = bool (*)(std::string_view line, TrainingLog& log);

// "step: 3 loss: 4.9 memory: 9.46GiB(64.99%) tps: 30,768" (components/metrics.py). `tps` (before
// 2025 `wps`) is tokens per second of one GPU; `memory` is the peak of reserved memory.
bool read_torchtitan(std::string_view line, TrainingLog& log) {
  const auto rate = holds(line, " tps:") ? number_after(line, "tps") : number_after(line, "wps");
  auto entry = entry_of(line, "step");
  if (!rate || !entry) return false;
  entry->tokens_per_second = rate;
  entry->reserved = bytes_after(line, "memory");
  log.per_gpu = true;
  log.entries.push_back(*entry);
  return true;
}

// "iteration 2/ 100 | ... | elapsed time per iteration (ms): 5630.1 | ..." (training/training.py),
// and "[Rank 0] ... memory (MB) | allocated: ... | max allocated: ... | max reserved: ..." once,
// after the first steps.
bool read_megatron(std::string_view line, TrainingLog& log) {
  if (holds(line, "max allocated:") && holds(line, "memory (MB)")) {
    // The line of memory may come before the first iteration.
    if (log.entries.empty()) log.entries.push_back({});
    log.entries.back().allocated = bytes_after(line, "max allocated");
    log.entries.back().reserved = bytes_after(line, "max reserved");
    return true;
  }
  const auto milliseconds = number_after(line, "elapsed time per iteration (ms)");
  auto entry = entry_of(line, "iteration");
  if (!milliseconds || !entry) return false;
  entry->seconds = *milliseconds / 1e3;
  if (const auto batch = number_after(line, "global batch size")) log.global_batch = batch;
  log.entries.push_back(*entry);
  return true;
}

// "iteration: 991 / 1000 | ... | elapsed_time_per_iteration_ms: 45 | tokens_per_sec: 14.2K | ...".
// The rates of all GPUs and of one GPU give the number of GPUs.
bool read_nanotron(std::string_view line, TrainingLog& log) {
  const auto milliseconds = number_after(line, "elapsed_time_per_iteration_ms");
  auto entry = entry_of(line, "iteration");
  if (!milliseconds || !entry) return false;
  entry->seconds = *milliseconds / 1e3;
  entry->tokens_per_second = number_after(line, "tokens_per_sec");
  entry->reserved = bytes_after(line, "cuda_max_memory_reserved");
  log.global_batch = number_after(line, "global_batch_size");
  const auto one = number_after(line, "tokens_per_sec_per_gpu");
  if (one && entry->tokens_per_second && *one > 0) {
    const double gpus = *entry->tokens_per_second / *one;
    log.gpus = static_cast<std::int64_t>(gpus + 0.5);
  }
  log.entries.push_back(*entry);
  return true;
}

// "epoch=0/micro_step=120/global_step=120, ..., CurrSamplesPerSec=219.1, MemAllocated=4.34GB, ..."
// (utils/timer.py, ThroughputTimer).
bool read_deepspeed(std::string_view line, TrainingLog& log) {
  const auto rate = number_after(line, "CurrSamplesPerSec");
  auto entry = entry_of(line, "global_step");
  if (!rate || !entry) return false;
  entry->samples_per_second = rate;
  entry->allocated = bytes_after(line, "MaxMemAllocated");
  log.entries.push_back(*entry);
  return true;
}

// "{'train_runtime': 73.58, 'train_samples_per_second': 6.9, 'train_steps_per_second': 1.74, ...}":
// the summary at the end of a run. Samples over steps are the global batch.
bool read_trainer(std::string_view line, TrainingLog& log) {
  const auto rate = number_after(line, "train_steps_per_second'");
  if (!rate || *rate <= 0) return false;
  log.mean_seconds = 1 / *rate;
  if (const auto samples = number_after(line, "train_samples_per_second'"))
    log.global_batch = *samples / *rate;
  return true;
}

struct LineFormat {
  const char* program;
  LineReader read;
};
// A line belongs to the first reader that accepts it.
constexpr std::array line_formats{
    LineFormat{"nanotron", read_nanotron}, LineFormat{"Megatron-LM", read_megatron},
    LineFormat{"torchtitan", read_torchtitan}, LineFormat{"DeepSpeed", read_deepspeed},
    LineFormat{"Hugging Face Trainer", read_trainer}};

std::vector<std::string_view> lines_of(const std::string& text) {
  std::vector<std::string_view> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(std::string_view(text).substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

// Reads a text log as the log of the program with the most lines. A line belongs to the first
// program whose reader accepts it.
TrainingLog text_log(const std::string& text) {
  std::array<TrainingLog, line_formats.size()> logs;
  std::array<int, line_formats.size()> hits{};
  int overflows = 0;
  for (const std::string_view line : lines_of(text)) {
    // Loss scaling of fp16 skips the optimizer after an overflow, so such steps are shorter.
    overflows += holds(line, "Skipping step") && holds(lower_case(line), "overflow");
    for (std::size_t i = 0; i < line_formats.size(); ++i) {
      if (!line_formats[i].read(line, logs[i])) continue;
      ++hits[i];
      break;
    }
  }
  const auto most = std::max_element(hits.begin(), hits.end());
  const auto best = static_cast<std::size_t>(most - hits.begin());
  TrainingLog log;
  if (*most == 0) return log;
  log = std::move(logs[best]);
  log.program = line_formats[best].program;
  if (overflows > 0)
    log.notes.push_back(fmt::format("{} steps overflowed and skipped the optimizer", overflows));
  return log;
}

// A column, recognised by a part of its name (in W&B, TensorBoard, torchtitan, Composer, Megatron
// or Trainer), and the field to which it belongs. `factor` converts to seconds or bytes.
struct Column {
  const char* part;
  std::optional<double> LogEntry::*field;
  double factor;
  bool per_gpu;
};
constexpr double gib = 1 << 30;
// The first part that is found counts, so longer names precede shorter names that they contain.
constexpr std::array columns{
    Column{"iteration-time", &LogEntry::seconds, 1, false},
    Column{"time_metrics/end_to_end(s)", &LogEntry::seconds, 1, false},
    Column{"step_time", &LogEntry::seconds, 1, false},
    Column{"elapsed_time_per_iteration_ms", &LogEntry::seconds, 1e-3, false},
    Column{"throughput(tps)", &LogEntry::tokens_per_second, 1, true},
    Column{"tps_per_gpu", &LogEntry::tokens_per_second, 1, true},
    Column{"tokens_per_sec_per_gpu", &LogEntry::tokens_per_second, 1, true},
    Column{"device/tokens_per_sec", &LogEntry::tokens_per_second, 1, true},
    Column{"tokens_per_sec", &LogEntry::tokens_per_second, 1, false},
    Column{"samples_per_sec", &LogEntry::samples_per_second, 1, false},
    Column{"max_reserved(gib)", &LogEntry::reserved, gib, false},
    Column{"max_active(gib)", &LogEntry::allocated, gib, false},
    Column{"peak_allocated_mem", &LogEntry::allocated, 1e9, false},
    Column{"peak_reserved_mem", &LogEntry::reserved, 1e9, false},
    Column{"wall time", &LogEntry::clock, 1, false},
    Column{"_timestamp", &LogEntry::clock, 1, false},
    Column{"_runtime", &LogEntry::clock, 1, false},
    Column{"time/total", &LogEntry::clock, 3600, false},
};

// Whether the column contains steps; programs give it different names.
bool is_step(const std::string& name) {
  constexpr std::array names{
      "step",          "_step",     "global_step", "train/global_step", "trainer/global_step",
      "current_steps", "iteration", "batch",       "time/batch"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Stores a value in the entry's field for its column; unknown columns are ignored. W&B exports
// minimum and maximum of grouped runs as columns NAME__MIN and NAME__MAX, which are ignored too.
void take(const std::string& name, const std::string& text, LogEntry& entry, TrainingLog& log) {
  const std::string key = lower_case(name);
  const auto value = number_after(text, "");
  if (is_step(key) && value) entry.step = static_cast<std::int64_t>(*value);
  // LLaMA-Factory's clock, e.g. "0:12:45".
  if (key == "elapsed_time") entry.clock = duration_in(text);
  if (!value || text.empty() || key.ends_with("__min") || key.ends_with("__max")) return;
  for (const Column& column : columns) {
    if (!holds(key, column.part) || (entry.*column.field)) continue;
    entry.*column.field = *value * column.factor;
    log.per_gpu = log.per_gpu || column.per_gpu;
    return;
  }
}

// The first line is the heading.
TrainingLog csv_log(const std::string& text) {
  TrainingLog log;
  log.program = "CSV";
  std::vector<std::string> names;
  for (const std::string_view line : lines_of(text)) {
    std::vector<std::string> fields = csv_fields(line);
    if (names.empty()) {
      names = std::move(fields);
      continue;
    }
    LogEntry entry;
    for (std::size_t i = 0; i < std::min(names.size(), fields.size()); ++i)
      take(names[i], fields[i], entry, log);
    log.entries.push_back(entry);
  }
  return log;
}

// Reads one JSON object per line; other lines are skipped.
TrainingLog json_lines_log(const std::string& text) {
  TrainingLog log;
  log.program = "JSON lines";
  for (const std::string_view line : lines_of(text)) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object()) continue;
    LogEntry entry;
    for (const auto& [name, value] : row.items()) {
      if (value.is_string()) take(name, value.get<std::string>(), entry, log);
      if (value.is_number()) take(name, fmt::format("{}", value.get<double>()), entry, log);
    }
    log.entries.push_back(entry);
  }
  return log;
}

// Hugging Face's trainer_state.json: losses by step, and the run's time in its last entry. The file
// has no time of single steps.
TrainingLog trainer_state(const nlohmann::json& state) {
  TrainingLog log;
  log.program = "Hugging Face Trainer";
  int evaluations = 0;
  for (const auto& row : state.at("log_history")) {
    if (!row.is_object()) continue;
    const auto number = [&](const char* key) { return row.value(key, 0.0); };
    for (const auto& [key, value] : row.items())
      evaluations += key.starts_with("eval_") && key.ends_with("runtime");
    const double rate = row.contains("train_runtime") ? number("train_steps_per_second") : 0;
    if (rate > 0) {
      // The rate is rounded to three digits; runtime over steps is not.
      const double steps = number("step");
      log.mean_seconds = steps > 0 ? number("train_runtime") / steps : 1 / rate;
      log.global_batch = number("train_samples_per_second") / rate;
    }
    LogEntry entry;
    entry.step = static_cast<std::int64_t>(number("step"));
    if (row.contains("loss")) log.entries.push_back(entry);
  }
  if (evaluations > 0 && log.mean_seconds)
    log.notes.push_back(fmt::format("{} evaluations lie within the run's time", evaluations));
  return log;
}

// Whether the file has only steps and losses ("1 8.049"), for which the error has a special hint.
bool is_losses(const std::string& text) {
  const auto lines = lines_of(text);
  return !lines.empty() &&
         lines[0].find_first_not_of("0123456789.e+- \r") == std::string_view::npos;
}

// Whether the first line is a heading with a column of steps.
bool is_table(const std::string& text) {
  const std::string_view head = std::string_view(text).substr(0, text.find('\n'));
  const std::vector<std::string> names = csv_fields(head);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return is_step(lower_case(name)); });
}

// Reads a log of any format, which the first character and the heading show.
TrainingLog any_log(const std::string& text, const std::string& path) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const char begins = first == std::string::npos ? ' ' : text[first];
  if (begins == '{') {
    const auto document = nlohmann::json::parse(text, nullptr, false);
    if (document.is_object() && document.contains("log_history")) {
      try {
        return trainer_state(document);
      } catch (const nlohmann::json::exception& error) {
        throw file_error(path, "log_history", "is not as Trainer writes it");
      }
    }
    // A console log may begin with the Trainer's summary.
    if (holds(text, "train_runtime")) return text_log(text);
    return json_lines_log(text);
  }
  return is_table(text) ? csv_log(text) : text_log(text);
}

// Sorts entries by step. If a step occurs several times, its last line counts, because a restarted
// run repeats steps.
void sort_by_step(TrainingLog& log) {
  std::map<std::int64_t, LogEntry> by_step;
  for (const LogEntry& entry : log.entries) by_step[entry.step] = entry;
  log.entries.clear();
  for (const auto& [step, entry] : by_step) log.entries.push_back(entry);
}

}  // namespace

TrainingLog training_log(const std::string& path) {
  const std::string text = file_text(path, most_of_a_table);
  TrainingLog log = any_log(text, path);
  log.file = path;
  if (log.entries.empty() && !log.mean_seconds) {
    const char* hint = is_losses(text) ? "it holds steps and losses alone"
                                       : "logs of torchtitan, Megatron-LM, nanotron, DeepSpeed and "
                                         "Trainer, CSV and JSON lines are read";
    throw file_error(path, "", "says nothing of the time of steps", hint);
  }
  sort_by_step(log);
  return log;
}

}  // namespace lockstep
