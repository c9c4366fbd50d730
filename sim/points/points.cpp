// Expands a scenario into jobs: resolves names, splits batches, lowers the model once per
// (micro-batch, precision) and prices it.
#include "points/points.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

#include "costs/profile.hpp"
#include "costs/roofline_costs.hpp"
#include "points/scaled_costs.hpp"
#include "points/step.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

std::int64_t exact_quotient(std::int64_t whole, std::int64_t parts, const std::string& what) {
  if (parts <= 0 || whole % parts != 0) throw std::invalid_argument(what);
  return whole / parts;
}

int checked_accumulation(std::int64_t micro_batches) {
  if (micro_batches > most_accumulation) {
    throw std::invalid_argument(fmt::format("{} micro-batches per step are too many, at most {}",
                                            micro_batches, most_accumulation));
  }
  return static_cast<int>(std::max<std::int64_t>(1, micro_batches));
}

// Step, costs and what follows from them, shared by all points with the same micro-batch and
// precision.
struct Workload {
  std::shared_ptr<const TrainingStep> step;
  std::shared_ptr<const ComputeCosts> costs;
  double memory_bound_seconds = 0;
};

// What the model says, as the files describe the hardware and after a what-if question's change.
struct Modelled {
  std::shared_ptr<const ComputeCosts> described, changed;
};

std::shared_ptr<const ComputeCosts> make_costs(const Modelled& modelled,
                                               const std::shared_ptr<const Profile>& profile,
                                               const CostScale& scale,
                                               std::vector<TrainingStep> neighbours = {}) {
  std::shared_ptr<const ComputeCosts> costs = modelled.changed;
  if (profile) {
    costs = profile_costs(profile, modelled.described, std::move(neighbours));
    if (modelled.changed != modelled.described) {
      costs = changed_costs(costs, modelled.described, modelled.changed);
    }
  }
  if (scale.device != 1 || scale.host != 1) {
    costs = std::make_shared<ScaledCosts>(costs, scale.device, scale.host);
  }
  return costs;
}

// Where there is no TF32, PyTorch's switches for it switch nothing: the kernels are those of fp32.
Precision compute_precision(const Strategy& strategy, Precision precision, const Device& device) {
  if (math_mode(precision) == MathMode::tf32 && device.tf32_flops <= 0) return Precision::fp32;
  return strategy.compute_precision(precision);
}

// What was measured on one device says nothing about another one. An importer whose input does not
// name the device writes "unknown".
void check_device(const Profile& profile, const Machine& machine, const std::string& file) {
  const std::string& here = machine.device.name;
  if (profile.device.empty() || profile.device == "unknown" || profile.device == here) return;
  throw file_error(
      "", "",
      fmt::format("{} was measured on {}, and {} has {}", in_quotes(file),
                  in_quotes(profile.device), machine.name, in_quotes(here)),
      fmt::format("a profile or a platform of the same device; if they are the same under two "
                  "names, `device: {}` in the profile",
                  here));
}

// Collects what does not fit, so that one run of `check` shows all of it.
class Misfits {
 public:
  void add(const Location& where, std::string field, std::string message, std::string hint = "") {
    list_.push_back({where, std::move(field), std::move(message), std::move(hint)});
  }
  void add(const ConfigError& error) {
    list_.insert(list_.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
  void throw_if_any() const {
    if (!list_.empty()) throw ConfigError(list_);
  }

 private:
  std::vector<Diagnostic> list_;
};

}  // namespace

BatchSplit split_batch(const BatchSpec& batch, int gpus) {
  BatchSplit split;
  std::int64_t per_gpu = batch.per_gpu;
  if (batch.global > 0) {
    per_gpu = exact_quotient(
        batch.global, gpus,
        fmt::format("global batch {} does not divide among {} GPUs", batch.global, gpus));
  }
  if (per_gpu == 0) {  // only the micro-batch is given
    split.accumulation = checked_accumulation(batch.accumulation);
    split.micro = batch.micro;
  } else if (batch.micro > 0) {
    split.micro = batch.micro;
    split.accumulation = checked_accumulation(
        exact_quotient(per_gpu, batch.micro,
                       fmt::format("{} samples per GPU are no whole number of micro-batches of {}",
                                   per_gpu, batch.micro)));
    if (batch.accumulation > 0 && batch.accumulation != split.accumulation) {
      throw std::invalid_argument(fmt::format("accumulation {} contradicts {} micro-batches of {}",
                                              batch.accumulation, split.accumulation, batch.micro));
    }
  } else {
    split.accumulation = checked_accumulation(batch.accumulation);
    split.micro =
        exact_quotient(per_gpu, split.accumulation,
                       fmt::format("{} samples per GPU do not divide into {} micro-batches",
                                   per_gpu, split.accumulation));
  }
  split.global = split.micro * split.accumulation * gpus;  // below 2^63: see the limits
  return split;
}

Job complete_job(const Point& point) {
  Job job = point.job;
  job.step = *point.step;
  return job;
}

std::vector<Point> expand(const Scenario& scenario, const std::vector<CostScale>& scales,
                          const MachineEdit& edit) {
  Misfits misfits;
  std::shared_ptr<const ModelFile> model;
  std::optional<Machine> machine;
  std::shared_ptr<const Profile> profile;
  auto attempt = [&](const Location& where, const char* field, auto&& action) {
    try {
      action();
    } catch (const ConfigError& error) {
      // A message without a line of its own is about the name written in the scenario.
      for (Diagnostic diagnostic : error.diagnostics()) {
        if (diagnostic.where.line == 0) {
          const std::string& file = diagnostic.where.file;
          const std::string quoted = in_quotes(file);
          if (!file.empty() && diagnostic.message.find(quoted) == std::string::npos) {
            diagnostic.message = fmt::format("{} {}", quoted, diagnostic.message);
          }
          diagnostic.where = where;
          diagnostic.field = field;
        } else if (diagnostic.where.file != where.file) {
          // What the scenario asks for does not go with a file that is fine by itself.
          if (!diagnostic.hint.empty()) diagnostic.hint += "; ";
          diagnostic.hint += fmt::format("asked for in {}:{}", where.file, where.line);
        }
        misfits.add(ConfigError(diagnostic));
      }
    }
  };
  attempt(scenario.model_where, "model", [&] { model = load_model(scenario.model); });
  attempt(scenario.platform_where, "platform", [&] { machine = load_machine(scenario.platform); });
  if (!scenario.profile.empty()) {
    attempt(scenario.profile_where, "profile", [&] {
      profile = std::make_shared<Profile>(load_profile(scenario.profile));
      if (machine) check_device(*profile, *machine, scenario.profile);
    });
  }
  misfits.throw_if_any();
  if (profile) apply_profile(*profile, *machine);
  Modelled modelled;
  modelled.described = modelled.changed =
      std::make_shared<RooflineCosts>(*machine, scenario.framework);
  if (edit) {
    const Machine described = *machine;
    Framework framework = scenario.framework;
    edit(*machine, framework);
    change_curves(described, *machine);
    modelled.changed = std::make_shared<RooflineCosts>(*machine, framework);
  }
  if (scenario.price_per_gpu_hour) {
    machine->price_per_gpu_hour = *scenario.price_per_gpu_hour;
    machine->price_source = "the scenario";
  }

  if (scenario.strategies.size() * scenario.gpus.size() > most_points) {
    misfits.add(scenario.gpus_where, "gpus",
                fmt::format("{} strategies at {} GPU counts are too many points, at most {}",
                            scenario.strategies.size(), scenario.gpus.size(), most_points));
    misfits.throw_if_any();
  }

  std::map<std::tuple<std::size_t, std::int64_t, Precision, Precision, bool>, Workload> workloads;
  std::vector<Point> points;
  for (std::size_t e = 0; e < scenario.strategies.size(); ++e) {
    const StrategyEntry& entry = scenario.strategies[e];
    const CostScale scale = scales.empty() ? CostScale{} : scales[e];
    const auto costs = make_costs(modelled, profile, scale);
    const std::shared_ptr<const Strategy> strategy = make_strategy(entry.options);
    if (auto refused = strategy->misfit(entry.precision.value_or(scenario.precision))) {
      refused->where = entry.where;
      misfits.add(ConfigError(*refused));
    }
    for (const int gpus : scenario.gpus) {
      if (gpus > max_gpus(*machine)) {
        const bool has_fabric = machine->fabric.kind != FabricKind::none;
        if (e == 0) {
          misfits.add(scenario.gpus_where, "gpus",
                      fmt::format("{} GPUs, but {} has at most {}", gpus, machine->name,
                                  max_gpus(*machine)),
                      fmt::format("a larger platform, or a file of your own with `base: {}`{} and "
                                  "`max_nodes: {}`",
                                  machine->name, has_fabric ? "" : ", a `fabric:`",
                                  (gpus + machine->gpus_per_node - 1) / machine->gpus_per_node));
        }
        continue;
      }
      BatchSplit split;
      try {
        split = split_batch(scenario.batch, gpus);
      } catch (const std::invalid_argument& error) {
        if (e == 0) misfits.add(scenario.batch_where, "batch", error.what());
        continue;
      }
      StepOptions options = step_options(scenario, entry, split.micro);
      const Precision precision = options.precision;  // of shards and optimizer
      options.precision = compute_precision(*strategy, precision, machine->device);
      const StepOptions asked = options;
      const auto key = std::make_tuple(scales.empty() ? 0 : e, split.micro, options.precision,
                                       precision, options.activation_checkpointing);
      auto found = workloads.find(key);
      if (found == workloads.end()) {
        Workload workload;
        TrainingStep step;
        bool built = false;
        attempt(scenario.model_where, "model", [&] {
          step = scenario_step(scenario, *model, options);
          built = true;
        });
        if (!built) misfits.throw_if_any();
        step.precision = precision;
        workload.costs = costs;
        std::vector<TrainingStep> neighbours;
        if (profile) {
          for (const std::int64_t samples : neighbouring_batches(*profile, step)) {
            options.samples = samples;
            neighbours.push_back(build_step(*model, options));
            neighbours.back().precision = precision;
          }
        }
        if (!neighbours.empty()) {
          workload.costs = make_costs(modelled, profile, scale, std::move(neighbours));
        }
        for (std::size_t i = 0; i < step.layers.size(); ++i) {
          workload.memory_bound_seconds += workload.costs->layer(step, i).memory_bound;
        }
        workload.step = std::make_shared<const TrainingStep>(std::move(step));
        found = workloads.emplace(key, std::move(workload)).first;
      }
      const Workload& workload = found->second;

      Point point;
      point.entry = e;
      point.label = entry.label;
      point.where = entry.where;
      point.step = workload.step;
      point.strategy = strategy;
      point.global_batch = split.global;
      point.micro_batch = split.micro;
      point.precision = precision;
      point.memory_bound_seconds = workload.memory_bound_seconds * split.accumulation;
      point.model_flops =
          (workload.step->forward_flops + workload.step->backward_flops) * split.accumulation;
      point.relative_error = machine->device.efficiency.relative_error;
      point.model = model;
      point.profile = profile;
      point.asked = asked;
      Job& job = point.job;
      job.machine = *machine;
      job.gpus = gpus;
      job.accumulation = split.accumulation;
      job.optimizer = scenario.optimizer;
      job.gradient_clipping = scenario.gradient_clipping;
      job.costs = workload.costs;
      job.input_on_device = scenario.data_loading.on_device;
      if (scenario.data_loading.samples_per_second > 0) {
        job.data_loading_seconds =
            static_cast<double>(split.micro) / scenario.data_loading.samples_per_second;
      }
      job.stragglers = scenario.stragglers;
      if (!job.stragglers.per_rank_sigma && machine->device.architecture != Architecture::cpu) {
        job.stragglers.per_rank_sigma = usual_spread;
      }
      job.seed = static_cast<std::uint64_t>(scenario.simulation.seed);
      job.steps = static_cast<int>(scenario.simulation.steps);
      job.interference = scenario.simulation.interference;
      job.network = scenario.simulation.network;
      job.engine = scenario.simulation.engine;
      job.communication_scale = scale.communication;
      points.push_back(std::move(point));
    }
  }
  misfits.throw_if_any();
  return points;
}

}  // namespace lockstep
