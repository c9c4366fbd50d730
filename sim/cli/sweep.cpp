// `lockstep sweep SCENARIO --set ...`: a prediction for every combination of settings, in a file of
// rows.
#include "sweep/sweep.hpp"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>

#include "cli/commands.hpp"
#include "core/units.hpp"
#include "sweep/launch.hpp"
#ifdef LOCKSTEP_WITH_MPI
#include "sweep/mpi.hpp"
#endif

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

#ifndef LOCKSTEP_WITH_MPI
// mpirun of a program that knows no MPI would do the whole sweep once for every rank.
void refuse_ranks(const Launch& launch, const SweepArguments& arguments) {
  if (launch.ranks == 1 || !arguments.shard.empty()) return;
  throw file_error("", "sweep",
                   fmt::format("{} started {} processes, and this program was built without MPI",
                               launch.by, launch.ranks),
                   "build it with -DLOCKSTEP_MPI=ON, or give each process a part with --shard K/N");
}
#endif

SweepOptions sweep_options(const SweepArguments& arguments, const CommonOptions& common) {
  SweepOptions options;
  options.workers = common.workers;
  options.most_seconds = parse_limit("--time-limit", arguments.time_limit, Dimension::seconds);
  options.most_bytes = parse_limit("--memory-limit", arguments.memory_limit, Dimension::bytes);
  options.stop = &stop;
  return options;
}

int sweep(const std::string& file, const SweepArguments& arguments, const CommonOptions& common,
          const Launch& launch) {
  const Shard shard = parse_shard(arguments.shard);
  SweepOptions options = sweep_options(arguments, common);
  InputFiles files;
  const Grid grid(file, arguments.settings, files);
  ProgressLine progress("sweeping");
  const SweepPlan plan = plan_sweep(grid, file, arguments.sample, arguments.seed,
                                    progress.run_options(common.workers));
  options.progress = [&](std::size_t done, std::size_t all, std::size_t before) {
    progress.update_rate(done, all, before);
  };
  std::unique_ptr<RowsFile> rows;
  if (launch.rank == 0) {
    rows = std::make_unique<RowsFile>(arguments.output, plan.digest,
                                      shard_rows(plan, shard.k, shard.n), arguments.retry_failed);
    catch_signals();
  }
  bool whole = true;
#ifdef LOCKSTEP_WITH_MPI
  if (launch.ranks > 1) {
    const MpiSession session;
    if (session.ranks() != launch.ranks) {
      throw file_error("", "sweep",
                       fmt::format("{} started {} processes, and MPI knows of {}", launch.by,
                                   launch.ranks, session.ranks()),
                       "srun needs --mpi=pmix, or whatever `srun --mpi=list` shows");
    }
    run_sweep_on_ranks(session, plan, files, rows.get(), options);
    if (!rows) return 0;
  } else {
    whole = run_sweep(plan, files, *rows, options);
  }
#else
  whole = run_sweep(plan, files, *rows, options);
#endif
  progress.clear();
  if (!whole) {
    fmt::print(stderr, "stopped after {} of {} points{}\n", rows->size() - rows->missing().size(),
               rows->size(),
               arguments.output.empty() ? "" : "; the same command goes on where it stopped");
    return 130;
  }
  const RowsFile::Counts counts = rows->counts();
  rows->finish(common.format == Format::csv);
  tell(counts, arguments.output);
  return exit_code(counts);
}

}  // namespace

int sweep_command(const std::string& file, const SweepArguments& arguments,
                  const CommonOptions& common) {
  if (!arguments.merge.empty()) {
    merge_rows(arguments.merge, arguments.output, common.format == Format::csv);
    return 0;
  }
#ifdef LOCKSTEP_WITH_MPI
  const Launch launch = launch_of_environment();
  try {
    return sweep(file, arguments, common, launch);
  } catch (const ConfigError&) {
    if (launch.rank == 0) throw;
    return 2;  // all ranks read the same; one says what is wrong
  }
#else
  refuse_ranks(launch_of_environment(), arguments);
  return sweep(file, arguments, common, {});
#endif
}

}  // namespace lockstep
