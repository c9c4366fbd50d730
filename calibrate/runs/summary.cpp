#include "runs/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/statistics.hpp"

namespace lockstep {

namespace {

bool asynchronous(RunStrategy strategy) {
  return strategy == RunStrategy::ps_async || strategy == RunStrategy::ps_ssp;
}

// A training run that diverged ends with numbers that do not equal themselves.
bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

Staleness staleness_of(const std::vector<ServerUpdate>& updates) {
  Staleness result;
  std::vector<double> values;
  for (const ServerUpdate& update : updates) {
    values.push_back(static_cast<double>(update.staleness));
    ++result.histogram[update.staleness];
  }
  result.mean = mean(values);
  result.p50 = quantile(values, 0.5);
  result.p99 = quantile(values, 0.99);
  result.max = *std::max_element(values.begin(), values.end());
  return result;
}

// Forward, backward and optimizer as rank 0 saw them; what they contain of communication and
// waiting cannot be told apart from outside.
StepSplit mean_split(const std::vector<RankReport>& reports, double step) {
  StepSplit split;
  double count = 0;
  for (const RankReport& report : reports) {
    for (const RankStep& s : report.steps) {
      split.forward += s.forward;
      split.backward += s.backward;
      split.optimizer += s.optimizer;
      ++count;
    }
  }
  const double sum = split.forward + split.backward + split.optimizer;
  if (count == 0 || sum <= 0) return {};
  const double scale = step / sum;  // the parts add up to the step
  split.forward *= scale;
  split.backward *= scale;
  split.optimizer *= scale;
  return split;
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
  double previous = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.steps); ++i) {
    // A step begins for the group when its last rank begins it: a server answers one after the
    // other.
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
  return result;
}

ResultRecord summarise_run(const TrainOptions& options, const std::string& network,
                           const std::vector<RankReport>& reports) {
  if (!asynchronous(options.strategy)) {
    for (const RankReport& report : reports) {
      if (report.rank == options.ranks || same_numbers(report.checksum, reports.front().checksum))
        continue;
      throw std::runtime_error(
          fmt::format("rank {} ended with other parameters than rank 0", report.rank));
    }
  }
  ResultRecord record;
  record.model = options.model;
  record.scenario =
      fmt::format("real training of {} with {}", options.model, enum_name(options.strategy));
  record.platform = fmt::format("{} processes on this machine's {}, {}", reports.size(),
                                options.device == "cpu" ? "CPU" : options.device, network);
  record.precision = enum_name(options.step.precision);
  record.seed = static_cast<std::uint64_t>(options.seed);
  Prediction p;
  p.strategy = enum_name(options.strategy);
  p.gpus = options.ranks;
  p.micro_batch = options.step.samples;
  p.global_batch = options.step.samples * options.ranks;
  p.precision = record.precision;
  const std::vector<double> steps = step_seconds(options, reports);
  if (steps.empty()) throw std::runtime_error("no step was measured");
  // Updates of asynchronous workers come in bunches: the rate is that of the whole time.
  p.step_seconds = asynchronous(options.strategy) ? mean(steps) : median(steps);
  p.step_interval = {quantile(steps, 0.05), quantile(steps, 0.95)};
  p.samples_per_second = static_cast<double>(p.global_batch) / p.step_seconds;
  p.split = mean_split(reports, p.step_seconds);
  p.provenance.measured = 1;
  p.simulated_steps = static_cast<int>(steps.size());
  for (const RankReport& report : reports) {
    if (report.memory.peak > p.memory.allocated && report.rank < options.ranks) {
      p.memory.allocated = report.memory.peak;
      p.memory.reserved = std::max(report.memory.reserved, report.memory.peak);
      p.memory.device = p.memory.reserved;
    }
  }
  if (has_server(options.strategy) && !reports.back().updates.empty()) {
    p.staleness = staleness_of(reports.back().updates);
  }
  double loss = 0;
  for (const RankReport& report : reports) {
    if (!report.steps.empty()) loss = report.steps.back().loss;
  }
  p.notes.push_back(fmt::format("loss {:.4f} after the last step", loss));
  if (reports.front().accuracy >= 0) {
    p.notes.push_back(
        fmt::format("accuracy {:.2f} % on the test set", 100 * reports.front().accuracy));
  }
  p.bottleneck = "measured: real training, every figure from the clock";
  record.predictions.push_back(std::move(p));
  return record;
}

}  // namespace lockstep
