// From simulated steps to the figures a user reads. Formulas: docs/numbers.md.
#include "points/predict.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/statistics.hpp"
#include "points/bottleneck.hpp"
#include "points/measured.hpp"
#include "results/invariants.hpp"

namespace lockstep {

namespace {

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

}  // namespace

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

}  // namespace lockstep
