// `lockstep sweep SCENARIO --set PATH=VALUES...` predicts every combination of settings, and writes
// a row for each to a file (JSON lines or CSV).
//
//   lockstep sweep my.yaml --set gpus=1,2,4..64*2 --set batch.global=64..1024*2 -o sweep.jsonl
//
// A sweep may be interrupted: the same command continues where it stopped. A sweep can be divided
// into shards (--shard K/N, then --merge), or run on the ranks of mpirun (docs/sweep.md).
//
// Exit code: 1 if a point failed, 2 if no point has an answer, 3 if no answer fits, 130 if stopped.
#include "sweep/sweep.hpp"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>

#include "cli/verb.hpp"
#include "core/units.hpp"
#include "sweep/launch.hpp"
#ifdef LOCKSTEP_WITH_MPI
#include "core/output.hpp"
#include "sweep/mpi.hpp"
#endif

namespace lockstep::sweep_verb {

namespace {

// Set by a signal; the sweep then writes the complete rows to the disk and ends.
std::atomic<bool> stop{false};

void on_signal(int) {
  stop = true;
}

// The first Ctrl-C ends the sweep and stores its rows; a second one ends it immediately.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

struct Arguments {
  std::string file;
  std::vector<std::string> settings;  // "PATH=VALUES"
  std::size_t sample = 0;             // 0 = all points
  std::uint64_t seed = 1;
  std::string shard;  // "K/N"; "" = all points
  // Limits of one point and of one worker process, with units; "" = none.
  std::string time_limit, memory_limit;
  bool retry_failed = false;
  std::string output;              // "" = print
  std::vector<std::string> merge;  // files of shards to merge; empty = do a sweep
  bool csv = false;
  CommonOptions common;
};

// Part number `k` (from 0) of `n` parts of the points.
struct Shard {
  std::size_t k = 0, n = 1;
};

// Reads "K/N". Throws ConfigError.
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

// Parses a limit to base units; 0 if there is none. Throws ConfigError about the option.
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

// The exit code of a complete sweep.
int exit_code(const RowsFile::Counts& counts) {
  if (counts.failed > 0) return 1;
  if (counts.answers == 0) return 2;
  return counts.fitting > 0 ? 0 : 3;
}

// Prints a summary of the rows on stderr.
void tell(const RowsFile::Counts& counts, const std::string& output) {
  std::string text =
      fmt::format("{}: {}", counted(counts.answers + counts.refused + counts.failed, "point"),
                  counted(counts.answers, "answer"));
  if (counts.refused > 0) text += fmt::format(", {} refused", counts.refused);
  if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
  if (!counts.first_reason.empty()) text += fmt::format(" (the first: {})", counts.first_reason);
  if (!output.empty()) text += fmt::format("; in {}", output);
  note(text);
}

#ifndef LOCKSTEP_WITH_MPI
// Throws ConfigError if a launcher started several processes, because without MPI each process
// would do the whole sweep.
void refuse_ranks(const Launch& launch, const Arguments& arguments) {
  if (launch.ranks == 1 || !arguments.shard.empty()) return;
  throw file_error("", "sweep",
                   fmt::format("{} started {} processes, and this program was built without MPI",
                               launch.by, launch.ranks),
                   "build it with -DLOCKSTEP_MPI=ON, or give each process a part with --shard K/N");
}
#endif

// The options of the simulation.
SweepOptions sweep_options(const Arguments& arguments) {
  SweepOptions options;
  options.workers = arguments.common.workers;
  options.most_seconds = parse_limit("--time-limit", arguments.time_limit, Dimension::seconds);
  options.most_bytes = parse_limit("--memory-limit", arguments.memory_limit, Dimension::bytes);
  options.stop = &stop;
  return options;
}

// Does the sweep. Rank 0 owns the file of rows; the other ranks only simulate.
int sweep_on(const Launch& launch, const Arguments& arguments) {
  const Shard shard = parse_shard(arguments.shard);
  SweepOptions options = sweep_options(arguments);
  InputFiles files;
  const Grid grid(arguments.file, arguments.settings, files);
  ProgressLine progress("sweeping");
  // Every rank makes the same plan, so that a row's number means the same point on all ranks.
  const SweepPlan plan = plan_sweep(grid, arguments.file, arguments.sample, arguments.seed,
                                    progress.run_options(arguments.common.workers));
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
    // The launcher's environment and MPI disagree, for example under srun without its MPI plugin.
    if (session.ranks() != launch.ranks) {
      throw file_error("", "sweep",
                       fmt::format("{} started {} processes, and MPI knows of {}", launch.by,
                                   launch.ranks, session.ranks()),
                       "srun needs --mpi=pmix, or another type that `srun --mpi=list` shows");
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
  // A signal stopped the sweep; the complete rows remain in FILE.part.
  if (!whole) {
    print_error("stopped after {} of {} points{}\n", rows->size() - rows->missing().size(),
                rows->size(),
                arguments.output.empty() ? "" : "; the same command goes on where it stopped");
    return 130;
  }
  const RowsFile::Counts counts = rows->counts();
  rows->finish(arguments.csv);
  tell(counts, arguments.output);
  return exit_code(counts);
}

// Merges the files of shards, or does a sweep.
int sweep(const Arguments& arguments) {
  if (!arguments.merge.empty()) {
    merge_rows(arguments.merge, arguments.output, arguments.csv);
    return 0;
  }
  if (arguments.file.empty()) {
    throw file_error("", "scenario", "is required", "lockstep sweep SCENARIO --set gpus=1,2,4");
  }
#ifdef LOCKSTEP_WITH_MPI
  const Launch launch = launch_of_environment();
  try {
    return sweep_on(launch, arguments);
  } catch (const ConfigError&) {
    if (launch.rank == 0) throw;
    return 2;  // all ranks have the same mistake; rank 0 reports it
  }
#else
  refuse_ranks(launch_of_environment(), arguments);
  return sweep_on({}, arguments);
#endif
}

Choice declare(CLI::App& app) {
  const auto parsed = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("sweep", "Predict every combination of settings of a scenario");
  auto* scenario = verb.add_option("scenario", parsed->file, "Scenario file");
  auto* set = verb.add_option("--set", parsed->settings,
                              "Field and its values: gpus=1,2,4..64*2; once for each field")
                  ->expected(1)
                  ->allow_extra_args(false)
                  ->take_all();
  auto* sample = verb.add_option("--sample", parsed->sample,
                                 "Number of points to draw at random from the grid")
                     ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40));
  verb.add_option("--seed", parsed->seed, "Seed of the sample (default: 1)")->needs(sample);
  auto* shard =
      verb.add_option("--shard", parsed->shard, "Only part K of N, as K/N with K from 0 to N-1");
  auto* retry = verb.add_flag("--retry-failed", parsed->retry_failed,
                              "Simulate points again that crashed or reached a limit");
  auto* time = verb.add_option("--time-limit", parsed->time_limit,
                               "Time limit of one point, e.g. 30s; the point fails beyond it");
  auto* memory =
      verb.add_option("--memory-limit", parsed->memory_limit,
                      "Memory limit of one worker process, e.g. 2GiB; the point fails beyond it");
  auto* merge =
      verb.add_option("--merge", parsed->merge, "Instead of a sweep: merge the files of its shards")
          ->expected(1, 1 << 20);
  verb.add_option("-o,--output", parsed->output,
                  "File of the rows; an existing file is continued (default, or -: print)");
  verb.add_flag("--csv", parsed->csv, "CSV instead of JSON lines");
  add_workers(verb, parsed->common);
  for (CLI::Option* option : {scenario, set, sample, shard, retry, time, memory}) {
    merge->excludes(option);
  }
  add_examples(verb, {"my.yaml --set gpus=1,2,4..64*2 --set batch.global=64..1024*2 -o sweep.jsonl",
                      "my.yaml --set 'strategies=ddp, fsdp: {version: 2}' --csv",
                      "my.yaml --set strategies.ddp.bucket_size=1MiB..64MiB*4",
                      "my.yaml --set gpus=1..64 --shard 0/2 -o 0.jsonl",
                      "--merge 0.jsonl 1.jsonl -o sweep.jsonl"});
  return {&verb, [parsed] {
            if (parsed->output == "-") parsed->output.clear();
            return sweep(*parsed);
          }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::sweep_verb
