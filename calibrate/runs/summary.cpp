// Summarises the reports of all ranks: for example step times, phases, losses, staleness and
// memory. Asynchronous strategies have no common steps, so their step is the time in which the
// server applies one update per worker.
#include "runs/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/statistics.hpp"
#include "results/staleness.hpp"

namespace lockstep {

namespace {

bool asynchronous(RunStrategy strategy) {
  return strategy == RunStrategy::ps_async || strategy == RunStrategy::ps_ssp;
}

// Whether two lists are equal. NaN counts as equal to NaN, because a training run may diverge.
bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// Mean seconds of forward, backward and optimizer by the ranks' clocks. They include communication
// and waiting, which cannot be separated here.
PhaseSeconds mean_phases(const std::vector<RankReport>& reports) {
  PhaseSeconds mean;
  double count = 0;
  for (const RankReport& report : reports) {
    for (const RankStep& step : report.steps) {
      mean.forward += step.forward;
      mean.backward += step.backward;
      mean.optimizer += step.optimizer;
      ++count;
    }
  }
  for (double* phase : {&mean.forward, &mean.backward, &mean.optimizer}) *phase /= count;
  return mean;
}

// The mean loss of each step over the ranks that made it, because asynchronous ranks may make
// different numbers of steps.
std::vector<double> mean_losses(const std::vector<RankReport>& reports) {
  std::vector<double> losses;
  while (true) {
    std::vector<double> ranks;
    for (const RankReport& report : reports) {
      if (losses.size() < report.steps.size()) ranks.push_back(report.steps[losses.size()].loss);
    }
    if (ranks.empty()) return losses;
    losses.push_back(mean(ranks));
  }
}

// A note on measured updates that loss scaling skipped. All ranks skip the same updates.
std::vector<std::string> notes_on_updates(const std::vector<RankStep>& steps) {
  const auto skipped =
      std::count_if(steps.begin(), steps.end(), [](const RankStep& step) { return step.skipped; });
  if (skipped == 0) return {};
  return {fmt::format("{} of {} updates skipped: gradients had infinities", skipped, steps.size())};
}

// Mean compute seconds of a step by rank. Empty if a rank does not know its compute, or made no
// measured step.
std::vector<double> mean_compute(const TrainOptions& options,
                                 const std::vector<RankReport>& reports) {
  std::vector<double> result;
  for (const RankReport& report : reports) {
    if (report.rank == options.ranks) continue;  // the server
    double sum = 0;
    for (const RankStep& step : report.steps) sum += step.compute;
    if (sum <= 0) return {};
    result.push_back(sum / static_cast<double>(report.steps.size()));
  }
  return result;
}

// The share of right answers. Each rank has classified a part of the test set.
std::optional<double> accuracy_of(const std::vector<RankReport>& reports) {
  std::int64_t right = 0, judged = 0;
  for (const RankReport& report : reports) {
    right += report.test_right;
    judged += report.test_judged;
  }
  if (judged == 0) return std::nullopt;
  return static_cast<double>(right) / static_cast<double>(judged);
}

// Means of `every` consecutive steps each.
std::vector<double> in_rounds(const std::vector<double>& steps, int every) {
  std::vector<double> rounds;
  const auto size = static_cast<std::ptrdiff_t>(every);
  for (auto at = steps.begin(); steps.end() - at >= size; at += size) {
    rounds.push_back(mean(std::vector<double>(at, at + size)));
  }
  return rounds;
}

// For fedavg: seconds of a step, one value for each round. A round's duration is divided by the
// steps that a rank makes on average in a round.
std::vector<double> of_drawn(const TrainOptions& options,
                             const std::vector<ServerUpdate>& updates) {
  std::vector<double> result;
  const double steps = 1.0 * options.every * drawn_ranks(options) / options.ranks;
  for (std::size_t i = 1; i < updates.size(); ++i) {
    result.push_back((updates[i].time - updates[i - 1].time) / steps);
  }
  return result;
}

}  // namespace

std::vector<double> step_seconds(const TrainOptions& options,
                                 const std::vector<RankReport>& reports) {
  std::vector<double> result;
  if (asynchronous(options.strategy)) {
    const auto& updates = reports.back().updates;
    const auto workers = static_cast<std::size_t>(options.ranks);
    for (std::size_t i = workers; i < updates.size(); ++i) {
      result.push_back(updates[i].time - updates[i - workers].time);
    }
    return result;
  }
  if (options.strategy == RunStrategy::fedavg) return of_drawn(options, reports.back().updates);
  double previous = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.steps); ++i) {
    // The first step begins when the last rank begins it, because a server answers the ranks one
    // after the other.
    double end = 0, begin = 0;
    for (const RankReport& report : reports) {
      if (i >= report.steps.size()) continue;
      end = std::max(end, report.steps[i].end);
      begin = std::max(begin, report.steps[i].begin);
    }
    if (end <= 0) break;
    result.push_back(end - (i == 0 ? begin : previous));
    previous = end;
  }
  return options.strategy == RunStrategy::diloco ? in_rounds(result, options.every) : result;
}

double mean_round_seconds(const std::vector<ServerUpdate>& updates, int workers) {
  std::vector<std::vector<std::size_t>> of_worker(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < updates.size(); ++i) {
    of_worker[static_cast<std::size_t>(updates[i].worker)].push_back(i);
  }
  std::size_t first = 0, last = updates.size() - 1;
  const auto slowest =
      std::min_element(of_worker.begin(), of_worker.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (slowest->size() > 1) {
    first = slowest->front();
    last = slowest->back();
  }
  return workers * (updates[last].time - updates[first].time) / static_cast<double>(last - first);
}

RealRecord summarise_run(const TrainOptions& options, const std::string& network,
                         const std::vector<RankReport>& reports) {
  if (!asynchronous(options.strategy)) {
    for (const RankReport& report : reports) {
      if (report.rank == options.ranks || same_numbers(report.checksum, reports.front().checksum))
        continue;
      throw std::runtime_error(
          fmt::format("rank {} ended with other parameters than rank 0", report.rank));
    }
  }
  RealRecord record;
  record.model = options.model;
  record.scenario =
      fmt::format("real training of {} with {}", options.model, enum_name(options.strategy));
  record.platform = fmt::format("{} processes on this machine's {}, {}", reports.size(),
                                options.device == "cpu" ? "CPU" : options.device, network);
  record.precision = enum_name(options.step.precision);
  record.seed = static_cast<std::uint64_t>(options.seed);
  RealRun run;
  run.strategy = enum_name(options.strategy);
  run.ranks = options.ranks;
  run.micro_batch = options.step.samples;
  run.global_batch = options.step.samples * options.ranks;
  run.precision = record.precision;
  run.each_step_seconds = step_seconds(options, reports);
  const std::vector<double>& steps = run.each_step_seconds;
  if (steps.empty()) throw std::runtime_error("no step was measured");
  const bool in_bunches = asynchronous(options.strategy);
  run.step_seconds =
      in_bunches ? mean_round_seconds(reports.back().updates, options.ranks) : median(steps);
  run.step_interval = {quantile(steps, 0.05), quantile(steps, 0.95)};
  run.samples_per_second =
      static_cast<double>(run.global_batch) / (in_bunches ? run.step_seconds : mean(steps));
  run.phases = mean_phases(reports);
  run.rank_compute_seconds = mean_compute(options, reports);
  run.losses = mean_losses(reports);
  for (const RankReport& report : reports) {
    if (report.rank == options.ranks) continue;  // the server
    run.memory.allocated = std::max(run.memory.allocated, report.memory.peak);
    run.memory.reserved = std::max(run.memory.reserved, report.memory.reserved);
  }
  if (has_server(options.strategy) && !reports.back().updates.empty()) {
    std::map<std::int64_t, std::int64_t> histogram;
    std::vector<std::int64_t> each_update;
    for (const ServerUpdate& update : reports.back().updates) {
      each_update.push_back(update.staleness);
      ++histogram[update.staleness];
    }
    run.staleness = MeasuredStaleness{staleness_of(std::move(histogram)), std::move(each_update)};
  }
  run.test_accuracy = accuracy_of(reports);
  run.notes = notes_on_updates(reports.front().steps);
  record.runs.push_back(std::move(run));
  return record;
}

}  // namespace lockstep
