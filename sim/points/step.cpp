// Builds the training step of a scenario (declared in workloads.hpp). If the model refuses, builds
// the step again without single options, to find the option at fault and to report its line in the
// scenario.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "points/workloads.hpp"

namespace lockstep {

namespace {

// The first error that building a step with these options gives; nothing if the step can be built.
std::optional<Diagnostic> refusal(const ModelFile& model, const StepOptions& options) {
  try {
    build_step(model, options);
  } catch (const ConfigError& error) {
    return error.diagnostics().front();
  }
  return std::nullopt;
}

// Moves the model's error to a line of the scenario. The error's own place, if it has one, becomes
// part of the message.
Diagnostic told_at(const Location& where, std::string field, Diagnostic refused) {
  const std::string hint = std::exchange(refused.hint, "");
  const bool located = refused.where.line > 0;
  return {where, std::move(field), located ? to_string(refused) : refused.message, hint};
}

// Errors of the scenario's `model_parameters`: one for each parameter that is refused by itself, or
// a single error if only the combination is refused. Empty if the parameters are not at fault, that
// is, if the model cannot be built without them either.
std::vector<Diagnostic> refused_parameters(const Scenario& scenario, const ModelFile& model,
                                           const StepOptions& options) {
  std::vector<Diagnostic> list;
  StepOptions without = options;
  without.parameters.clear();
  if (options.parameters.empty() || refusal(model, without)) return list;
  const auto place = [&](const std::string& name) {
    const auto found = scenario.model_parameters_where.find(name);
    return found == scenario.model_parameters_where.end() ? Location{} : found->second;
  };
  for (const auto& parameter : options.parameters) {
    StepOptions alone = without;
    alone.parameters.insert(parameter);
    if (const auto refused = refusal(model, alone)) {
      const std::string& name = parameter.first;
      list.push_back(told_at(place(name), "model_parameters." + name, *refused));
    }
  }
  if (list.empty()) {
    list.push_back(told_at(place(options.parameters.begin()->first), "model_parameters",
                           *refusal(model, options)));
  }
  return list;
}

// The error of the scenario's `input` (image size, sequence, classes). Empty if the input is not at
// fault.
std::vector<Diagnostic> refused_input(const Scenario& scenario, const ModelFile& model,
                                      const StepOptions& options) {
  const auto refused = refusal(model, options);
  StepOptions without = options;
  without.image.clear();
  without.sequence = without.classes = 0;
  if (refusal(model, without)) return {};
  const bool named = refused->field.starts_with("input.");
  return {told_at(scenario.input_where, named ? refused->field : "input", *refused)};
}

}  // namespace

StepOptions step_options(const Scenario& scenario, const StrategyEntry& entry, std::int64_t micro) {
  StepOptions options;
  options.samples = micro;
  options.precision = entry.precision.value_or(scenario.precision);
  options.image = scenario.input.image;
  options.sequence = scenario.input.sequence;
  options.classes = scenario.input.classes;
  options.parameters = scenario.model_parameters;
  options.fused_attention = scenario.attention == AttentionKind::fused;
  options.channels_last = scenario.memory_format == MemoryFormat::channels_last;
  options.activation_checkpointing =
      entry.activation_checkpointing.value_or(scenario.activation_checkpointing);
  options.recompute = entry.recompute.value_or(scenario.recompute);
  options.compile = entry.compile.value_or(scenario.compile);
  options.fused_kernels = scenario.fused_kernels;
  options.framework = scenario.framework.name;
  options.cuda_graphs = entry.cuda_graphs.value_or(scenario.cuda_graphs);
  options.low_precision = entry.low_precision.value_or(scenario.low_precision);
  options.parallel = parallel_of(scenario, entry);
  options.fine_tuning = scenario.fine_tuning;
  return options;
}

void check_fast_path(const Scenario& scenario, const StrategyEntry& entry, const Device& device,
                     Misfits& misfits) {
  const LowPrecision& low = entry.low_precision.value_or(scenario.low_precision);
  const Location& where = entry.low_precision ? entry.where : scenario.low_precision_where;
  if (!low.is_used()) return;
  const double units = math_mode(low.recipe) == MathMode::fp4 ? device.fp4_flops : device.fp8_flops;
  const bool blackwell_only = low.recipe == LowPrecisionRecipe::mxfp8;
  const bool lacks = units <= 0 || (blackwell_only && device.compute_capability < 100);
  if (lacks) {
    misfits.add(where, "low_precision",
                fmt::format("{}: {} has no units for it", enum_name(low.recipe), device.title),
                device.fp8_flops > 0 ? "fp8-tensorwise, fp8-rowwise, fp8-delayed, fp8-current, "
                                       "fp8-blockwise"
                                     : "Ada, Hopper or Blackwell");
  }
  const auto* fsdp = std::get_if<FsdpOptions>(&entry.options);
  const bool gathers = fsdp != nullptr && fsdp->version == 2;
  if (low.gather && (!gathers || low.recipe != LowPrecisionRecipe::fp8_tensorwise)) {
    misfits.add(
        where, "low_precision.gather",
        fmt::format("not with {} and {}", strategy_name(entry.options), enum_name(low.recipe)),
        "fsdp: {version: 2} with fp8-tensorwise");
  }
  const Precision precision = entry.precision.value_or(scenario.precision);
  if (activation_bytes(precision) != 2) {
    misfits.add(where, "low_precision",
                fmt::format("{} computes in {}: quantised layers compute in half precision",
                            enum_name(low.recipe), enum_name(precision)),
                "precision: amp-bf16, pure-bf16 or master-bf16");
  }
}

// Experts without a capacity receive a number of tokens that only the device knows, so that the
// host must read it before it launches the exchange.
void check_captured(const Scenario& scenario, const StrategyEntry& entry, const TrainingStep& step,
                    Misfits& misfits) {
  if (!step.captured) return;
  const Location& where = entry.cuda_graphs ? entry.where : scenario.cuda_graphs_where;
  for (const Layer& layer : step.layers) {
    for (const AxisExchange& exchange : layer.forward_exchanges) {
      if (!exchange.host_waits) continue;
      misfits.add(where, "cuda_graphs",
                  fmt::format("{}: the host waits for numbers of tokens", layer.name),
                  "false, or a capacity of experts (`parallel.expert.capacity`)");
      return;
    }
  }
}

TrainingStep scenario_step(const Scenario& scenario, const ModelFile& model,
                           const StepOptions& options) {
  TrainingStep step;
  try {
    step = build_step(model, options);
  } catch (const ConfigError&) {
    // Reports the first of the two groups of options that is at fault; otherwise throws the model's
    // own error.
    for (const auto& blame : {refused_parameters, refused_input}) {
      Diagnostics in_order;
      for (const Diagnostic& refused : blame(scenario, model, options)) in_order.add(refused);
      in_order.throw_if_any();
    }
    throw;
  }
  if (scenario.dataset.tokens > 0 && step.tokens == 0) {
    throw ConfigError(Diagnostic{scenario.dataset_where, "dataset.tokens",
                                 fmt::format("model '{}' reads images, not tokens", step.model),
                                 "use `samples` and `epochs`"});
  }
  return step;
}

}  // namespace lockstep
