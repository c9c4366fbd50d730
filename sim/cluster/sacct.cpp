// Parses the output of Slurm's `sacct` (`-P`, `-p`, or exported as CSV) line by line. Columns are
// found by name; cells hold durations, times, counts and lists of trackable resources (TRES).
// Formats follow sacct's manual page, section "Job Accounting Fields", and the layouts that older
// versions of Slurm print.
#include "cluster/sacct.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/errors.hpp"
#include "core/file_text.hpp"
#include "core/yaml.hpp"

namespace lockstep {

namespace {

// Largest accepted values, so that sums of seconds and GPUs stay within the range of their types.
constexpr double most_seconds = 1e12;
constexpr int most_count = 1'000'000;

// The cells of a line. Cells that are separated by commas may be quoted as in RFC 4180, in which ""
// inside quotes is one quotation mark. Output of `sacct -P` is never quoted.
std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[i++];
    } else if (line[i] == '"' && separator == ',') {
      quoted = !quoted;
    } else if (line[i] == separator && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

// A number from 0 to `most_seconds`; nothing if the text has any other character.
std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= 0 && value <= most_seconds)) return std::nullopt;
  return value;
}

// A part of a date or of a time of day; nothing unless all characters are digits.
std::optional<unsigned> digits(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Seconds of sacct's `Elapsed` and `Timelimit`: [days-]hours:minutes:seconds or minutes:seconds.
// Each part except the first must be below its limit (60, 60, 24).
std::optional<double> clock_seconds(std::string_view text) {
  std::vector<unsigned> parts;
  std::size_t from = 0;
  const auto dash = text.find('-');
  while (from <= text.size()) {
    // Only the days, the first part, end with a dash.
    const auto end = std::min(text.find_first_of(parts.empty() ? "-:" : ":", from), text.size());
    const auto part = digits(text.substr(from, end - from));
    if (!part) return std::nullopt;
    parts.push_back(*part);
    from = end + 1;
  }
  const bool days = dash != std::string_view::npos;
  if (days ? parts.size() != 4 : parts.size() < 2 || parts.size() > 3) return std::nullopt;
  constexpr std::array<double, 4> unit{1, 60, 3600, 86400};
  constexpr std::array<unsigned, 3> below{60, 60, 24};
  double seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Parts begin with the largest unit; u is the index of a unit, with seconds as 0.
    const std::size_t u = parts.size() - 1 - i;
    if (i > 0 && parts[i] >= below[u]) return std::nullopt;
    seconds += unit[u] * parts[i];
  }
  return seconds;
}

// The value of `Submit` in seconds since 1970. The text is a date such as 2024-03-01T12:00:00 or
// such a number. Time zones cancel, because only differences between submissions matter.
std::optional<double> moment(std::string_view text) {
  if (const auto seconds = number(text)) return seconds;
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T') return std::nullopt;
  const auto year = digits(text.substr(0, 4)), month = digits(text.substr(5, 2)),
             day = digits(text.substr(8, 2));
  const auto clock = clock_seconds(fmt::format("0-{}", text.substr(11)));
  if (!year || !month || !day || !clock) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(*month), std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  return 86400.0 * std::chrono::sys_days(date).time_since_epoch().count() + *clock;
}

// A whole number up to `most_count`.
std::optional<int> count_of(std::string_view text) {
  const auto count = number(text);
  if (!count || *count > most_count || *count != std::floor(*count)) return std::nullopt;
  return static_cast<int>(*count);
}

// The GPUs in a TRES list: 8 in "billing=64,cpu=64,gres/gpu=8,gres/gpu:a100=8,node=1"; 0 if the
// list names none. The untyped entry `gres/gpu` is the total; without it the typed entries are
// added. Memory and utilisation of GPUs (gres/gpumem, gres/gpuutil) are not counts of GPUs.
std::optional<int> gpus_of_tres(const std::string& resources) {
  int typed = 0;
  for (const std::string& part : cells_of(resources, ',')) {
    const bool all = part.starts_with("gres/gpu=");
    if (!all && !part.starts_with("gres/gpu:")) continue;
    const auto sign = part.find('=');
    const auto count = sign == std::string::npos ? std::nullopt : count_of(part.substr(sign + 1));
    // Returns nothing for a malformed count.
    if (!count || all) return count;
    typed = std::min(most_count, typed + *count);
  }
  return typed;
}

// The GPUs in a GRES list of older versions of Slurm: 3 in "gpu:2,gres:gpu:a100:1,mps:100". An
// entry without a count (gpu, gpu:a100) means one GPU.
std::optional<int> gpus_of_gres(const std::string& resources) {
  int gpus = 0;
  for (std::string part : cells_of(resources, ',')) {
    if (part.starts_with("gres:")) part.erase(0, 5);
    if (part != "gpu" && !part.starts_with("gpu:")) continue;
    const std::string last = part.substr(part.rfind(':') + 1);
    const bool counted = last.find_first_not_of("0123456789") == std::string::npos;
    const auto count = counted ? count_of(last) : 1;
    if (!count) return std::nullopt;
    gpus = std::min(most_count, gpus + *count);
  }
  return gpus;
}

// Reads one file. The first line names the columns; each further line is a job, a step of a job, or
// an error that is collected with its line.
class SacctReader {
 public:
  SacctReader(std::string file, std::string partition)
      : file_(std::move(file)), partition_(std::move(partition)) {}

  SacctTrace read(std::string_view text) {
    std::vector<TracedJob>& jobs = trace_.jobs;
    // Spreadsheets write a byte order mark in front of UTF-8.
    if (constexpr std::string_view mark = "\xEF\xBB\xBF"; text.starts_with(mark)) {
      text.remove_prefix(mark.size());
    }
    while (!text.empty()) {
      const auto end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      if (line.empty()) continue;
      if (columns_.empty()) {
        read_header(line);
      } else if (const auto job = read_row(line)) {
        jobs.push_back(*job);
      }
    }
    if (columns_.empty()) fault("", "is empty", "first a line of column names");
    // Runs after all rows are read, because it depends on whether any job of the file has GPUs.
    leave_out_jobs_on_cpus(jobs);
    faults_.throw_if_any();
    if (jobs.empty() && !partition_.empty() && partitions_.count(partition_) == 0) {
      throw file_error(file_, "Partition",
                       fmt::format("no job is of partition {}", in_quotes(partition_)),
                       allowed_hint(partition_, {partitions_.begin(), partitions_.end()}));
    }
    if (jobs.empty()) throw file_error(file_, "", "holds no job that ran");
    // Times become relative to the first submission, which is time 0 of the simulation.
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const auto& a, const auto& b) { return a.submit < b.submit; });
    const double first = jobs.front().submit;
    for (TracedJob& job : jobs) job.submit -= first;
    return std::move(trace_);
  }

 private:
  // Records an error at the current line; an empty file has no line.
  void fault(const std::string& column, std::string message, std::string hint = "") {
    faults_.add({{file_, line_, line_ > 0 ? 1 : 0}, column, std::move(message), std::move(hint)});
  }

  // Slurm names GPUs in TRES lists only if it is configured to count them. If any row of the file
  // names GPUs, a TRES list without GPUs belongs to a job on CPUs. In all other files the number of
  // nodes determines the GPUs of a job.
  void leave_out_jobs_on_cpus(std::vector<TracedJob>& jobs) {
    const auto has_gpus = [](const TracedJob& job) { return job.gpus > 0; };
    if (std::any_of(jobs.begin(), jobs.end(), has_gpus)) {
      const auto on_cpus = std::erase_if(jobs, [](const TracedJob& job) { return job.on_cpus; });
      if (on_cpus > 0) trace_.left_out["on CPUs"] = static_cast<int>(on_cpus);
    }
    for (const TracedJob& job : jobs) {
      if (job.gpus > 0 || job.nodes > 0) continue;
      faults_.add({{file_, job.line, 1},
                   "AllocTRES",
                   "names neither GPUs nor nodes",
                   "gres/gpu=8, or a column NNodes"});
    }
  }

  // Takes `|` as the separator if the line has one, a comma otherwise. Throws ConfigError unless
  // each needed value has at least one of its possible columns.
  void read_header(std::string_view line) {
    separator_ = line.find('|') != std::string_view::npos ? '|' : ',';
    const auto names = cells_of(line, separator_);
    for (std::size_t i = 0; i < names.size(); ++i) columns_[names[i]] = i;
    width_ = names.size();
    const auto need_one = [&](const std::vector<std::string>& choices) {
      for (const auto& name : choices) {
        if (columns_.contains(name)) return;
      }
      fault(choices.front(), "no such column",
            fmt::format("needs {} in the first line", fmt::join(choices, " or ")));
    };
    need_one({"JobID", "JobIDRaw"});
    need_one({"Submit"});
    need_one({"ElapsedRaw", "Elapsed"});
    need_one({"AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES", "NNodes", "AllocNodes", "ReqNodes"});
    if (!partition_.empty()) need_one({"Partition"});
    faults_.throw_if_any();
  }

  // The first of these columns that has a value, as (column, value). If none has one, the value is
  // empty.
  std::pair<std::string, std::string> cell(const std::vector<std::string>& names) const {
    for (const auto& name : names) {
      const auto column = columns_.find(name);
      if (column != columns_.end() && !cells_[column->second].empty()) {
        return {name, cells_[column->second]};
      }
    }
    return {names.front(), ""};
  }

  // Returns a job, or nothing for a row that is left out or wrong. Errors are recorded in
  // `faults_`.
  std::optional<TracedJob> read_row(std::string_view line) {
    cells_ = cells_of(line, separator_);
    // sacct -p ends its lines with a separator.
    if (cells_.size() == width_ + 1 && cells_.back().empty()) cells_.pop_back();
    if (cells_.size() != width_) {
      fault("", fmt::format("has {} cells", cells_.size()),
            fmt::format("the first line has {}", width_));
      return std::nullopt;
    }
    TracedJob job;
    job.line = line_;
    job.id = cell({"JobID", "JobIDRaw"}).second;
    // Rows such as 12.batch and 12.0 are steps of job 12; the row of job 12 has the whole length.
    if (job.id.find('.') != std::string::npos) return std::nullopt;
    if (!partition_.empty()) {
      const std::string partition = cell({"Partition"}).second;
      partitions_.insert(partition);
      if (partition != partition_) return left_out("in other partitions");
    }
    job.name = cell({"JobName"}).second;
    const auto [elapsed_name, elapsed] = cell({"ElapsedRaw", "Elapsed"});
    const std::string state = cell({"State"}).second, start = cell({"Start"}).second;
    // These states and start times mean that the job never got GPUs: it waited, its nodes failed to
    // boot, or another cluster of a federation ran it.
    const bool waited = state == "PENDING" || state == "BOOT_FAIL" || state == "REVOKED" ||
                        start == "Unknown" || start == "None";
    if (elapsed.empty() || waited) return left_out("that never ran");
    const auto ran = elapsed_name == "ElapsedRaw" ? number(elapsed) : clock_seconds(elapsed);
    // The other columns of jobs that never ran are not checked, because PENDING jobs have no times.
    if (ran && *ran <= 0) return left_out("that never ran");
    // All errors of a row are reported at once.
    const std::size_t faults = faults_.list().size();
    if (!ran) bad(elapsed_name, elapsed, "seconds, or days-hours:minutes:seconds for Elapsed");
    const auto [submit_name, submit] = cell({"Submit"});
    const auto submitted = moment(submit);
    if (!submitted) bad(submit_name, submit, "2024-03-01T12:00:00, or seconds since 1970");
    const auto [nodes_name, nodes] = cell({"NNodes", "AllocNodes", "ReqNodes"});
    const auto count = nodes.empty() ? std::optional<int>(0) : count_of(nodes);
    if (!count) bad(nodes_name, nodes, "a number of nodes");
    job.nodes = count.value_or(0);
    read_gpus(job);
    read_limit(job);
    if (faults_.list().size() > faults) return std::nullopt;
    job.elapsed = *ran;
    job.submit = *submitted;
    trace_.running += state == "RUNNING" ? 1 : 0;
    return job;
  }

  // Counts a job that is left out, under the reason that the note to the user names.
  std::optional<TracedJob> left_out(const std::string& reason) {
    ++trace_.left_out[reason];
    return std::nullopt;
  }

  // Reads the GPUs from the first column that names any; columns of allocated resources precede
  // columns of requested ones.
  void read_gpus(TracedJob& job) {
    for (const char* name : {"AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES"}) {
      const std::string text = cell({name}).second;
      const bool tres = std::string_view(name).ends_with("TRES");
      const auto gpus = tres ? gpus_of_tres(text) : gpus_of_gres(text);
      if (!gpus) bad(name, text, tres ? "as in cpu=64,gres/gpu=8,node=1" : "as in gpu:a100:2");
      job.gpus = gpus.value_or(0);
      // ReqGRES is a request per node; all other columns count the whole job.
      if (std::string_view(name) == "ReqGRES" && job.nodes > 0) {
        job.gpus = static_cast<int>(
            std::min<std::int64_t>(most_count, std::int64_t{job.gpus} * job.nodes));
      }
      if (!gpus || job.gpus > 0) break;
    }
    // The row has a TRES list, but no column names GPUs.
    job.on_cpus = job.gpus == 0 && !cell({"AllocTRES", "ReqTRES"}).second.empty();
  }

  // The time limit in seconds. TimelimitRaw is in minutes; Timelimit is days-hours:minutes:seconds,
  // or says that the job has no limit of its own.
  void read_limit(TracedJob& job) {
    const auto [name, text] = cell({"TimelimitRaw", "Timelimit"});
    if (text.empty() || text == "UNLIMITED" || text == "Partition_Limit") return;
    const auto raw = number(text);
    const auto limit =
        name == "TimelimitRaw" && raw ? std::optional(60 * *raw) : clock_seconds(text);
    if (!limit) bad(name, text, "days-hours:minutes:seconds, UNLIMITED, Partition_Limit");
    job.limit = limit.value_or(0);
  }

  // Records an error about a value, with the allowed forms.
  void bad(const std::string& column, const std::string& text, const char* allowed) {
    fault(column, text.empty() ? "has no value" : fmt::format("{} is none", in_quotes(text)),
          fmt::format("allowed: {}", allowed));
  }

  std::string file_, partition_;
  SacctTrace trace_;
  // All partitions of the file, for the hint of an unknown one.
  std::set<std::string> partitions_;
  int line_ = 0;
  char separator_ = ',';
  std::size_t width_ = 0;
  std::map<std::string, std::size_t> columns_;
  std::vector<std::string> cells_;
  Diagnostics faults_;
};

}  // namespace

SacctTrace read_sacct_text(std::string_view text, const std::string& file,
                           const std::string& partition) {
  return SacctReader(file, partition).read(text);
}

SacctTrace read_sacct(const std::string& file, const std::string& partition) {
  return read_sacct_text(file_text(file, most_of_a_table), file, partition);
}

}  // namespace lockstep
