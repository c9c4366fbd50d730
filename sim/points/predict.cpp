// Computes a prediction from simulated steps: time of the run, throughput, MFU, memory, price,
// energy, intervals. docs/numbers.md has all formulas. The duration of a run is the sum of the
// first step, the simulated steps with their warm-up, and steady steps.
#include "points/predict.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/statistics.hpp"
#include "points/bottleneck.hpp"
#include "points/checkpoints.hpp"
#include "points/faults.hpp"
#include "points/interval.hpp"
#include "points/measured.hpp"
#include "points/other_devices.hpp"
#include "results/learning.hpp"

namespace lockstep {

namespace {

// Extra time per step and per run, and extra dollars per run, compared with the simulation without
// stragglers. Dollars are proportional to time.
StragglerCost straggler_cost(const Prediction& p, const StrategyResult& result) {
  StragglerCost cost;
  cost.step_without = *result.step_without_stragglers;
  cost.step_more = p.step_seconds - cost.step_without;
  cost.total_more = cost.step_more * p.steps;
  if (p.dollars > 0) cost.dollars_more = p.dollars * cost.total_more / p.total_seconds;
  cost.ranks = result.ranks;
  return cost;
}

// Seconds of `steps` steps after the first. The simulated steps take their mean. Further steps take
// the mean after the warm-up, or the same mean if there was no warm-up.
double seconds_of(double steps, const StrategyResult& result) {
  const double average = mean(result.step_seconds), simulated = result.simulated_steps - 1;
  if (!result.later_step_seconds || steps <= simulated) return steps * average;
  return simulated * average + (steps - simulated) * *result.later_step_seconds;
}

// The inverse of seconds_of(): the number of steps that take `seconds`, rounded, at least 1.
double steps_in(double seconds, const StrategyResult& result) {
  const double average = mean(result.step_seconds), simulated = result.simulated_steps - 1;
  const double left = seconds - simulated * average;
  const bool goes_on = result.later_step_seconds && left > 0;
  return std::max(
      1.0, std::round(goes_on ? simulated + left / *result.later_step_seconds : seconds / average));
}

// Energy of the run as two bounds. Upper bound: all boards at full power for the whole run, times
// the data centre's overhead. Lower bound: full power only while a GPU is busy.
Energy energy_of(const Prediction& p, double board_power, const EnergySpec& energy_spec) {
  const double most = energy_spec.overhead * board_power / 1000 * p.gpus * p.total_seconds / 3600;
  Energy energy{{most * p.gpu_utilisation, most}, {}};
  if (energy_spec.carbon_intensity > 0) {
    const double kilograms = energy_spec.carbon_intensity / 1000;
    energy.carbon_kilograms =
        Interval{energy.kilowatt_hours.low * kilograms, energy.kilowatt_hours.high * kilograms};
  }
  return energy;
}

// Mean and spread over the seeds; nothing if the point was simulated once.
std::optional<OverSeeds> over_seeds(const StrategyResult& result) {
  if (result.step_of_seed.empty()) return std::nullopt;
  OverSeeds over_seeds_result{
      static_cast<int>(result.step_of_seed.size()), mean_of_seeds(result.step_of_seed), {}};
  if (!result.staleness_of_seed.empty())
    over_seeds_result.staleness = mean_of_seeds(result.staleness_of_seed);
  return over_seeds_result;
}

// Peak flop/s of a mean GPU in this math mode, because some ranks may have other devices than the
// platform's.
double peak_per_gpu(const Point& point, MathMode mode) {
  const Job& job = point.job;
  const double own = peak_flops(job.machine.device, mode);
  double more = 0;
  for (const OtherDevice& other : job.stragglers.other_devices) {
    const double peak = peak_flops(*point.devices.at(other.device), mode);
    more += static_cast<double>(ranks_with(other, job).size()) * (peak - own);
  }
  return own + more / job.mesh.gpus();
}

}  // namespace

Prediction summarise_point(const Scenario& scenario, const Point& point,
                           const StrategyResult& result) {
  const Job& job = point.job;
  Prediction p;
  p.strategy = point.label;
  p.gpus = job.mesh.gpus();
  p.nodes = nodes_of(job.mesh.gpus(), job.machine);
  p.global_batch = point.global_batch;
  p.micro_batch = point.micro_batch;
  p.accumulation = job.accumulation;
  p.precision = EnumNames<Precision>::names[static_cast<std::size_t>(point.precision)];
  const double average = mean(result.step_seconds);
  p.step_seconds = average;
  p.median_step_seconds = median(result.step_seconds);
  p.step_error = step_error(scenario, point, result);
  p.step_interval = interval_around(average, sigma_of(p.step_error));
  p.first_step_seconds = result.first_step_seconds;
  p.steps = steps_of_run(scenario, point);
  if (scenario.dataset.seconds > 0) p.steps = steps_in(scenario.dataset.seconds, result);
  p.total_seconds = p.steps > 0 ? result.first_step_seconds + seconds_of(p.steps - 1, result) : 0;
  p.samples_per_second = result.samples_per_step / average;
  p.tokens_per_second = p.samples_per_second * static_cast<double>(point.tokens_per_sample);
  p.split = result.split;
  p.stages = result.stages;
  if (const Mesh& mesh = job.mesh; !mesh.only_data()) {
    p.mesh = {mesh.data, mesh.context, mesh.tensor, mesh.pipeline, mesh.expert};
  }
  p.gpu_utilisation = result.device_busy / average;
  p.flops_per_second = point.model_flops / average;
  p.mfu = p.flops_per_second / peak_per_gpu(point, math_mode(point.precision));
  p.memory = result.memory;
  if (scenario.faults) add_checkpoint_memory(scenario, point, p.memory);
  if (!fits(p.memory)) {
    OutOfMemory& lacks = p.out_of_memory.emplace();
    if (!fits_device(p.memory)) lacks.shortfall = p.memory.device - p.memory.capacity;
    if (!fits_host(p.memory)) lacks.host_shortfall = p.memory.host - p.memory.host_capacity;
    if (!fits_nvme(p.memory)) lacks.nvme_shortfall = p.memory.nvme - p.memory.nvme_capacity;
  }
  p.traffic = result.traffic;
  p.staleness = result.staleness;
  p.worker_steps = result.worker_steps;
  p.over_seeds = over_seeds(result);
  // A job that does not fit cannot run and therefore has no price.
  if (!p.out_of_memory) {
    p.dollars = p.total_seconds / 3600 * job.mesh.gpus() * job.machine.price_per_gpu_hour;
  }
  if (result.step_without_stragglers) p.stragglers = straggler_cost(p, result);
  if (scenario.faults) p.with_failures = run_with_failures(scenario, point, result, p);
  p.provenance = result.provenance;
  p.engine = EnumNames<Engine>::names[static_cast<std::size_t>(result.engine)];
  p.extrapolated = result.extrapolated;
  p.simulated_steps = result.simulated_steps;
  p.simulated_micro_batches = result.simulated_micro_batches;
  p.bottleneck = bottleneck_of(p, point).sentence;
  p.notes = result.notes;
  if (const Device& device = job.machine.device; scenario.energy && !p.out_of_memory) {
    if (device.board_power > 0) {
      p.energy = energy_of(p, device.board_power, *scenario.energy);
    } else {
      p.notes.push_back("no energy: the file of " + device.name + " has no board_power");
    }
  }
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
      predicted.failures.push_back({points[i].label, points[i].job.mesh.gpus(), error.what()});
      continue;
    }
    predicted.points.push_back(std::move(points[i]));
    predicted.results.push_back(std::move(outcomes[i].result));
  }
  return predicted;
}

}  // namespace lockstep
