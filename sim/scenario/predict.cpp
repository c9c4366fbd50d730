// From simulated steps to the figures a user reads. Formulas: docs/numbers.md.
#include "scenario/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "results/cells.hpp"
#include "results/invariants.hpp"
#include "results/staleness.hpp"
#include "scenario/anchor.hpp"
#include "scenario/bottleneck.hpp"
#include "scenario/fork_map.hpp"
#include "scenario/remarks.hpp"
#include "scenario/suggest.hpp"
#include "scenario/wire.hpp"

namespace lockstep {

namespace {

// A simulation that says nothing for so long has got stuck: the longest steps known, of parameter
// servers with some hundred thousand workers, take a minute.
constexpr double most_silence = 600;

constexpr double z90 = 1.6448536269514722;  // two-sided 90 % of a normal law

// One sigma of what a step is off by whose costs were all measured, or interpolated. Measured: root
// mean square of the 24 errors of docs/closed-loop.md. Interpolated: that, and the 2.8 % by which
// straight lines between batches up to a factor of ten apart miss the device models' own steps
// (docs/numbers.md).
constexpr double measured_error = 0.034;
constexpr double interpolated_error = 0.044;

// Costs of one origin are off together, those of different origins independently.
double cost_error(const ProvenanceShare& share, double modelled_error) {
  const double modelled = 1 - share.measured - share.interpolated;
  return std::hypot(share.measured * measured_error, share.interpolated * interpolated_error,
                    modelled * modelled_error);
}

constexpr double anchor_tolerance = 0.02;  // an anchor is met

bool meets(const Scenario& scenario, const Point& point, const MeasuredRow& row, double predicted) {
  const double measured = measured_step_seconds(scenario, point, row);
  return std::abs(predicted / measured - 1) <= anchor_tolerance;
}

// Whether the step itself was measured, and the prediction is that.
bool is_anchored(const Scenario& scenario, const Point& point, double predicted) {
  return std::any_of(scenario.anchor.begin(), scenario.anchor.end(), [&](const MeasuredRow& row) {
    return entry_of(scenario, row) == point.entry && row.gpus == point.job.gpus &&
           meets(scenario, point, row, predicted);
  });
}

// A prediction is off because the costs are and because single steps differ (draws). Both are taken
// as independent on the logarithm.
Interval interval_of(double step, const std::vector<double>& steps, double relative_error) {
  const double average = mean(steps);
  const double draws = average > 0 ? standard_deviation(steps) / average : 0;
  const double sigma = std::hypot(relative_error, draws);
  return {step * std::exp(-z90 * sigma), step * std::exp(z90 * sigma)};
}

// What fits is searched by simulation: not for every one of a thousand points.
constexpr std::size_t most_suggested_points = 16;

// The factors of an anchor are bounded, and a data loader's rate is not scaled: a row may be out of
// reach, and rows may contradict each other.
void warn_of_missed_anchors(const Scenario& scenario, const std::vector<Point>& points,
                            const std::vector<StrategyResult>& results, ResultRecord& record) {
  for (const auto& row : scenario.anchor) {
    const std::size_t entry = entry_of(scenario, row);
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].entry != entry || points[i].job.gpus != row.gpus) continue;
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

void warn_of_uneven_workers(const Prediction& p, ResultRecord& record) {
  const std::string uneven = uneven_workers(*p.worker_steps);
  if (uneven.empty()) return;
  record.warnings.push_back(fmt::format(
      "{}: {}: the others' data hardly count, so time and price are not those of training on all "
      "of it",
      point_text(p.strategy, p.gpus), uneven));
}

// PyTorch trains in a precision that the device has no units for: it ignores the switch for TF32
// (torch-fp32, its default, asks for nothing), and converts half precision to fp32 and back.
void warn_of_missing_units(const std::vector<Point>& points, ResultRecord& record) {
  std::set<Precision> asked;
  for (const Point& point : points) asked.insert(point.precision);
  for (const Precision precision : asked) {
    const Device& device = points.front().job.machine.device;
    const auto* name = EnumNames<Precision>::names[static_cast<std::size_t>(precision)];
    if (precision == Precision::tf32 && device.tf32_flops <= 0) {
      record.warnings.push_back(
          fmt::format("{}: {} has no TF32; PyTorch ignores the switch there, so these are the fp32 "
                      "kernels",
                      name, device.title));
    }
    const bool fp16 = math_mode(precision) == MathMode::fp16 && device.fp16_flops <= 0;
    const bool bf16 = math_mode(precision) == MathMode::bf16 && device.bf16_flops <= 0;
    if (fp16 || bf16) {
      record.warnings.push_back(
          fmt::format("{}: {} has no units for {}; PyTorch converts to fp32 and back there, which "
                      "is predicted at the rate of fp32 and takes longer in truth",
                      name, device.title, fp16 ? "fp16" : "bf16"));
    }
  }
}

}  // namespace

double steps_of_run(const Scenario& scenario, const Point& point) {
  const DatasetSpec& data = scenario.dataset;
  if (data.tokens > 0) {
    const double tokens_per_step =
        static_cast<double>(point.step->tokens) * point.job.accumulation * point.job.gpus;
    if (tokens_per_step > 0) return std::ceil(data.tokens / tokens_per_step);
  }
  if (data.samples <= 0) return 0;
  return std::ceil(data.samples / static_cast<double>(point.global_batch)) * data.epochs;
}

std::vector<Outcome> simulate_each(const std::vector<Point>& points, const RunOptions& options) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ForkOptions fork{.workers = options.workers > 0 ? options.workers : cores,
                   .most_silence = most_silence};
  RunProgress progress{.all = points.size()};
  if (options.progress) {
    fork.on_done = [&](std::size_t done) {
      progress = {.done = done, .all = points.size()};
      options.progress(progress);
    };
    fork.on_progress = [&](std::size_t point, double fraction) {
      progress.point = point_text(points[point].label, points[point].job.gpus);
      progress.fraction = fraction;
      options.progress(progress);
    };
  }
  const auto answers = fork_map(points.size(), fork, [&](std::size_t i, const Report& report) {
    try {
      Job job = complete_job(points[i]);
      job.progress = report;
      return to_wire(make_strategy(points[i].options)->simulate(job));
    } catch (const ConfigError& error) {
      return refusal_to_wire(error);
    }
  });
  std::vector<Outcome> results;
  Diagnostics refusals;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Point& point = points[i];
    if (!answers[i].ok) {
      results.push_back({{}, answers[i].output});
      continue;
    }
    std::vector<Diagnostic> refused;
    results.push_back({from_wire(answers[i].output, refused), std::nullopt});
    for (Diagnostic& diagnostic : refused) {
      if (diagnostic.where.file.empty()) diagnostic.where = point.where;
      diagnostic.message = point_text(point.label, point.job.gpus) + ": " + diagnostic.message;
      refusals.add(std::move(diagnostic));
    }
  }
  refusals.throw_if_any();
  return results;
}

std::vector<StrategyResult> simulate(const std::vector<Point>& points, const RunOptions& options) {
  std::vector<StrategyResult> results;
  for (Outcome& outcome : simulate_each(points, options)) {
    const Point& point = points[results.size()];
    if (outcome.failure) {
      throw std::runtime_error(point_text(point.label, point.job.gpus) + ": " + *outcome.failure);
    }
    results.push_back(std::move(outcome.result));
  }
  return results;
}

Prediction summarise_point(const Scenario& scenario, const Point& point,
                           const StrategyResult& result) {
  const Job& job = point.job;
  Prediction p;
  p.strategy = point.label;
  p.gpus = job.gpus;
  p.nodes = (job.gpus + job.machine.gpus_per_node - 1) / job.machine.gpus_per_node;
  p.global_batch = point.global_batch;
  p.micro_batch = point.micro_batch;
  p.accumulation = job.accumulation;
  p.precision = EnumNames<Precision>::names[static_cast<std::size_t>(point.precision)];
  const double average = mean(result.step_seconds);
  p.step_seconds = average;
  p.median_step_seconds = median(result.step_seconds);
  const double error = is_anchored(scenario, point, average)
                           ? anchor_error
                           : cost_error(result.provenance, point.relative_error);
  p.step_interval = interval_of(p.step_seconds, result.step_seconds, error);
  p.first_step_seconds = result.first_step_seconds;
  p.steps = steps_of_run(scenario, point);
  p.total_seconds = p.steps > 0 ? result.first_step_seconds + (p.steps - 1) * average : 0;
  p.samples_per_second = result.samples_per_step / average;
  if (point.step->tokens > 0) {
    p.tokens_per_second = p.samples_per_second * static_cast<double>(point.step->tokens) /
                          static_cast<double>(point.step->samples);
  }
  p.split = result.split;
  p.gpu_utilisation = result.device_busy / average;
  const double peak = peak_flops(job.machine.device, math_mode(point.precision));
  p.mfu = point.model_flops / (average * peak);  // both per GPU
  p.memory = result.memory;
  p.memory_capacity = result.memory_capacity;
  if (result.memory_capacity > 0 && p.memory.device > result.memory_capacity) {
    p.out_of_memory = OutOfMemory{p.memory.device - result.memory_capacity, {}};
  }
  p.traffic = result.traffic;
  p.staleness = result.staleness;
  p.worker_steps = result.worker_steps;
  if (!p.out_of_memory) {  // what cannot run has no price
    p.dollars = p.total_seconds / 3600 * job.gpus * job.machine.price_per_gpu_hour;
  }
  p.provenance = result.provenance;
  p.engine = EnumNames<Engine>::names[static_cast<std::size_t>(result.engine)];
  p.extrapolated = result.extrapolated;
  p.simulated_steps = result.simulated_steps;
  p.bottleneck = bottleneck_sentence(scenario, p, point);
  p.notes = result.notes;
  if (const auto fault = broken_invariant(p); !fault.empty()) {
    throw std::runtime_error("this prediction contradicts itself and is not shown: " + fault);
  }
  return p;
}

Predicted predict_each(const Scenario& scenario, std::vector<Point> points,
                       const RunOptions& options) {
  Predicted predicted;
  std::vector<Outcome> outcomes = simulate_each(points, options);
  for (std::size_t i = 0; i < points.size(); ++i) {
    try {
      if (outcomes[i].failure) throw std::runtime_error(*outcomes[i].failure);
      predicted.predictions.push_back(summarise_point(scenario, points[i], outcomes[i].result));
    } catch (const std::runtime_error& error) {
      predicted.failures.push_back({points[i].label, points[i].job.gpus, error.what()});
      continue;
    }
    predicted.points.push_back(std::move(points[i]));
    predicted.results.push_back(std::move(outcomes[i].result));
  }
  return predicted;
}

ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options) {
  const auto scales = anchor_scales(scenario, options);
  Predicted predicted = predict_each(scenario, expand(scenario, scales), options);
  const std::vector<Point>& points = predicted.points;
  ResultRecord record;
  record.failures = std::move(predicted.failures);
  record.scenario = scenario.name;
  record.file = scenario.file;
  record.model = scenario.model;
  record.platform = points.empty() ? scenario.platform : points.front().job.machine.title;
  record.precision = EnumNames<Precision>::names[static_cast<std::size_t>(scenario.precision)];
  record.seed = static_cast<std::uint64_t>(scenario.simulation.seed);
  for (std::size_t e = 0; e < scales.size(); ++e) {
    record.warnings.push_back(fmt::format(
        "{} is anchored: device time x {:.3f}, host time x {:.3f}, communication x {:.3f}",
        scenario.strategies[e].label, scales[e].device, scales[e].host, scales[e].communication));
  }
  if (scenario.profile.empty()) warn_of_missing_units(points, record);
  for (std::string& remark : remarks(scenario, points)) {
    record.warnings.push_back(std::move(remark));
  }
  std::size_t misfits = 0;
  std::map<std::size_t, double> base_rate;  // samples/s per GPU at the entry's smallest GPU count
  std::map<std::size_t, int> base_gpus;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Prediction& p = predicted.predictions[i];
    if (p.out_of_memory && ++misfits <= most_suggested_points) {
      p.out_of_memory->suggestions = suggest_what_fits(scenario, points[i]);
    }
    const auto known = base_gpus.find(points[i].entry);
    if (known == base_gpus.end() || p.gpus < known->second) {
      base_gpus[points[i].entry] = p.gpus;
      base_rate[points[i].entry] = p.samples_per_second / p.gpus;
    }
    if (p.worker_steps) warn_of_uneven_workers(p, record);
  }
  record.predictions = std::move(predicted.predictions);
  for (std::size_t i = 0; i < points.size(); ++i) {
    Prediction& p = record.predictions[i];
    p.scaling_efficiency = p.samples_per_second / p.gpus / base_rate[points[i].entry];
  }
  warn_of_missed_anchors(scenario, points, predicted.results, record);
  return record;
}

}  // namespace lockstep
