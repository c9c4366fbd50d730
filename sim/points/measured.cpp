// Converts a measured row to seconds per step: from a step time, samples/s, tokens/s or the total
// time, in this order. Counts the optimizer steps of a run from dataset and batch.
#include "points/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// Relative difference up to which a prediction meets an anchor.
constexpr double anchor_tolerance = 0.02;

}  // namespace

Scenario only(const Scenario& scenario, std::size_t entry, int gpus) {
  Scenario alone = scenario;
  alone.strategies = {scenario.strategies[entry]};
  alone.gpus = {gpus};
  alone.anchor.clear();
  alone.measured.clear();
  return alone;
}

std::size_t entry_of(const Scenario& scenario, const MeasuredRow& row) {
  if (row.strategy.empty() && scenario.strategies.size() == 1) return 0;
  std::vector<std::string> labels;
  for (std::size_t e = 0; e < scenario.strategies.size(); ++e) {
    if (scenario.strategies[e].label == row.strategy) return e;
    labels.push_back(scenario.strategies[e].label);
  }
  throw ConfigError({row.where, "strategy",
                     row.strategy.empty() ? "missing: the scenario has several strategies"
                                          : fmt::format("no strategy '{}'", row.strategy),
                     allowed_hint(row.strategy, labels)});
}

double measured_step_seconds(const MeasuredRow& row, double samples, double tokens, double steps) {
  if (row.step_time) return *row.step_time;
  if (row.samples_per_second) return samples / *row.samples_per_second;
  if (row.tokens_per_second) return tokens / *row.tokens_per_second;
  if (row.total_time && steps > 0) return *row.total_time / steps;
  return 0;
}

double measured_step_seconds(const Scenario& scenario, const Point& point, const MeasuredRow& row) {
  const double tokens =
      static_cast<double>(point.tokens_per_sample) * static_cast<double>(point.global_batch);
  return measured_step_seconds(row, static_cast<double>(point.global_batch), tokens,
                               steps_of_run(scenario, point));
}

bool meets(const Scenario& scenario, const Point& point, const MeasuredRow& row, double predicted) {
  const double measured = measured_step_seconds(scenario, point, row);
  return std::abs(predicted / measured - 1) <= anchor_tolerance;
}

double steps_of_run(const Scenario& scenario, const Point& point) {
  const DatasetSpec& data = scenario.dataset;
  if (data.steps > 0) return std::ceil(data.steps);
  if (data.tokens > 0) {
    const double tokens_per_step =
        static_cast<double>(point.tokens_per_sample) * static_cast<double>(point.global_batch);
    if (tokens_per_step > 0) return std::ceil(data.tokens / tokens_per_step);
  }
  if (data.samples <= 0) return 0;
  // The last step of an epoch has a smaller batch if the samples do not divide.
  const double in_epoch = std::ceil(data.samples / static_cast<double>(point.global_batch));
  return std::max(1.0, in_epoch * data.epochs);
}

}  // namespace lockstep
