// `lockstep sweep SCENARIO --set ...`: a prediction for every combination of settings, in a file of
// rows.
#include "sweep/sweep.hpp"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "cli/commands.hpp"
#include "core/units.hpp"

namespace lockstep {

namespace {

std::atomic<bool> stop{false};

void on_signal(int) {
  stop = true;
}

// The first Ctrl-C ends the sweep in good order, a second one at once.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

struct Shard {
  std::size_t k = 0, n = 1;
};

Shard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  Shard shard;
  const char* end = text.data() + text.size();
  const auto k = std::from_chars(text.data(), end, shard.k);
  if (k.ec == std::errc() && k.ptr != end && *k.ptr == '/') {
    const auto n = std::from_chars(k.ptr + 1, end, shard.n);
    if (n.ec == std::errc() && n.ptr == end && shard.k < shard.n) return shard;
  }
  throw file_error("", "--shard", fmt::format("{} is no shard", in_quotes(text)),
                   "write K/N with K from 0 to N-1, for example 0/4, 1/4, 2/4, 3/4");
}

double parse_limit(const char* option, const std::string& text, Dimension dimension) {
  if (text.empty()) return 0;
  try {
    const double value = parse_quantity(text, dimension);
    if (value > 0) return value;
  } catch (const UnitError& error) {
    throw file_error("", option, error.what());
  }
  throw file_error("", option, fmt::format("{} is out of range", in_quotes(text)),
                   "allowed: more than 0");
}

int exit_code(const RowsFile::Counts& counts) {
  if (counts.failed > 0) return 1;
  if (counts.answers == 0) return 2;
  return counts.fitting > 0 ? 0 : 3;
}

void tell(const RowsFile::Counts& counts, const std::string& output) {
  std::string text = fmt::format("{} points: {} answers",
                                 counts.answers + counts.refused + counts.failed, counts.answers);
  if (counts.refused > 0) text += fmt::format(", {} refused", counts.refused);
  if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
  if (!counts.first_reason.empty()) text += fmt::format(" (the first: {})", counts.first_reason);
  if (!output.empty()) text += fmt::format("; in {}", output);
  fmt::print(stderr, "{}\n", text);
}

}  // namespace

int sweep_command(const std::string& file, const SweepArguments& arguments,
                  const CommonOptions& common) {
  const bool csv = common.format == Format::csv;
  if (!arguments.merge.empty()) {
    merge_rows(arguments.merge, arguments.output, csv);
    return 0;
  }
  const Shard shard = parse_shard(arguments.shard);
  SweepOptions options;
  options.workers = common.workers;
  options.most_seconds = parse_limit("--time-limit", arguments.time_limit, Dimension::seconds);
  options.most_bytes = parse_limit("--memory-limit", arguments.memory_limit, Dimension::bytes);
  options.stop = &stop;

  InputFiles files;
  const Grid grid(file, arguments.settings, files);
  ProgressLine progress("sweeping");
  const SweepPlan plan = plan_sweep(grid, file, arguments.sample, arguments.seed,
                                    progress.run_options(common.workers));
  RowsFile rows(arguments.output, plan.digest, shard_rows(plan, shard.k, shard.n),
                arguments.retry_failed);
  options.progress = [&](std::size_t done, std::size_t all, std::size_t before) {
    progress.update_rate(done, all, before);
  };
  catch_signals();
  const bool whole = run_sweep(plan, files, rows, options);
  progress.clear();
  if (!whole) {
    fmt::print(stderr, "stopped after {} of {} points{}\n", rows.size() - rows.missing().size(),
               rows.size(),
               arguments.output.empty() ? "" : "; the same command goes on where it stopped");
    return 130;
  }
  const RowsFile::Counts counts = rows.counts();
  rows.finish(csv);
  tell(counts, arguments.output);
  return exit_code(counts);
}

}  // namespace lockstep
