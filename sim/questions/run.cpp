// Assembles the record of a scenario: expands, simulates, summarises, advises. Values that compare
// points with each other (scaling efficiency) and warnings about the whole scenario are added here.
#include "questions/run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "points/measured.hpp"
#include "points/predict.hpp"
#include "questions/advice.hpp"
#include "questions/anchor.hpp"
#include "questions/fitting.hpp"
#include "results/cells.hpp"
#include "results/staleness.hpp"

namespace lockstep {

namespace {

// Number of points for which jobs that fit are suggested. Each needs a search, which would take
// long in a scenario with a thousand points.
constexpr std::size_t most_suggested_points = 16;

// Adds a warning for each anchor that the prediction of its point does not meet. This can happen
// because factors are bounded, because a data loader's rate has no factor, or because two rows
// contradict each other.
void warn_of_missed_anchors(const Scenario& scenario, const std::vector<Point>& points,
                            const std::vector<StrategyResult>& results, ResultRecord& record) {
  for (const auto& row : scenario.anchor) {
    const std::size_t entry = entry_of(scenario, row);
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].entry != entry || points[i].job.mesh.gpus() != row.gpus) continue;
      const double measured = measured_step_seconds(scenario, points[i], row);
      const double predicted = mean(results[i].step_seconds);
      if (!meets(scenario, points[i], row, predicted)) {
        record.warnings.push_back(fmt::format(
            "the anchor of {} is not met: {} predicted, {} measured",
            point_text(points[i].label, row.gpus), human(predicted, Dimension::seconds, 4),
            human(measured, Dimension::seconds, 4)));
      }
    }
  }
}

// Adds a warning if asynchronous workers finish very different numbers of steps, because the data
// of the slow workers then hardly contribute to training.
void warn_of_uneven_workers(const Prediction& p, ResultRecord& record) {
  const std::string uneven = uneven_workers(*p.worker_steps);
  if (uneven.empty()) return;
  record.warnings.push_back(
      fmt::format("{}: {}: the data of the other workers hardly count, so time and price are not "
                  "for training on the whole dataset",
                  point_text(p.strategy, p.gpus), uneven));
}

}  // namespace

ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options) {
  const auto scales = anchor_scales(scenario, options);
  Predicted predicted = predict_each(scenario, expand(scenario, scales), options);
  advise(scenario, scales, predicted, options);
  const std::vector<Point>& points = predicted.points;
  ResultRecord record;
  record.failures = std::move(predicted.failures);
  record.scenario = scenario.name;
  record.file = scenario.file;
  record.model = scenario.model;
  if (!points.empty()) {
    // All points share model and input, so the first one describes them.
    const TrainingStep& step = *points.front().job.step;
    record.parameters = points.front().parameters;
    if (step.tokens > 0) {
      record.sequence = points.front().tokens_per_sample;
    } else {
      record.image = step.input_shape;
    }
  }
  record.platform = points.empty() ? scenario.platform : points.front().job.machine.title;
  record.precision = EnumNames<Precision>::names[static_cast<std::size_t>(scenario.precision)];
  if (scenario.recipe != Recipe::none) {
    record.recipe = fmt::format("{}: {}", enum_name(scenario.recipe),
                                scenario.recipe_set.empty()
                                    ? "the scenario says all that it would set"
                                    : fmt::to_string(fmt::join(scenario.recipe_set, ", ")));
  }
  record.seed = static_cast<std::uint64_t>(scenario.simulation.seed);
  // Warnings: the anchors' factors, then options without effect and other remarks.
  for (std::size_t e = 0; e < scales.size(); ++e) {
    record.warnings.push_back(fmt::format(
        "{} is anchored: device time x {:.3f}, host time x {:.3f}, communication x {:.3f}",
        scenario.strategies[e].label, scales[e].device, scales[e].host, scales[e].communication));
  }
  for (std::string& remark : remarks(scenario, points)) {
    record.warnings.push_back(std::move(remark));
  }
  // Suggestions for points that do not fit, and the base of the scaling efficiency.
  std::size_t misfits = 0;
  // Samples per second and GPU at the smallest GPU count of each entry.
  std::map<std::size_t, double> base_rate;
  std::map<std::size_t, int> base_gpus;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Prediction& p = predicted.predictions[i];
    if (p.out_of_memory && ++misfits <= most_suggested_points) {
      for (const FittingJob& job : least_changes(scenario, points[i], scales)) {
        p.out_of_memory->suggestions.push_back(fitting_text(job));
      }
    }
    const auto known = base_gpus.find(points[i].entry);
    if (known == base_gpus.end() || p.gpus < known->second) {
      base_gpus[points[i].entry] = p.gpus;
      base_rate[points[i].entry] = p.samples_per_second / p.gpus;
    }
    if (p.worker_steps) warn_of_uneven_workers(p, record);
  }
  // The base of an entry is known only after all of its points, so a loop of its own computes the
  // efficiencies.
  record.predictions = std::move(predicted.predictions);
  for (std::size_t i = 0; i < points.size(); ++i) {
    Prediction& p = record.predictions[i];
    p.scaling_efficiency = p.samples_per_second / p.gpus / base_rate[points[i].entry];
  }
  warn_of_missed_anchors(scenario, points, predicted.results, record);
  return record;
}

}  // namespace lockstep
