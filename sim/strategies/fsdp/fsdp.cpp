// FSDP's simulation, its update on the device or on the host, its precision, and its notes in the
// result. The hooks that issue work are in fsdp1.cpp and fsdp2.cpp. Numbers in brackets are facts
// of docs/facts.md.
#include "strategies/fsdp/fsdp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "memory/step_memory.hpp"
#include "strategies/common/whole_matrices.hpp"
#include "strategies/fsdp/hooks.hpp"

namespace lockstep {

namespace {

// PyTorch's cpu_offload: the host clips and updates `elements` of each rank. All ranks of a host
// share its memory bandwidth [44].
UpdateWork update_on_host(const Job& job, double elements) {
  UpdateWork work;
  const Precision precision = job.step->precision;
  const double on_host = elements * ranks_per_host(job);
  const HostSpec& host = job.machine.host;
  work.host.seconds = host_optimizer_seconds(job.optimizer, precision, on_host, host);
  work.clips = job.gradient_clipping > 0;
  if (work.clips) {
    work.host.seconds += host_stream_seconds(clipping_bytes(precision, on_host), host);
  }
  return work;
}

// The update of a rank's shards, on the device, on the host, or on both.
UpdateWork update_of(const Job& job, const FsdpLayout& layout, JobNetwork& network) {
  const TensorShare shard{layout.optimizer_elements(), layout.optimizer_tensors()};
  if (layout.updates_on_host(job)) {
    return layout.options.cpu_offload
               ? update_on_host(job, shard.elements)
               : update_with_host(job, layout.options.offload, shard, network);
  }
  UpdateWork work = update_work(job, shard, shard);
  if (work.clips) {
    // Clipping is three streams: one reads for the norm, and two read and write for scaling. The
    // ranks agree on the norm in between.
    const double bytes = clipping_bytes(job.step->precision, shard.elements);
    const int launches = clipping_launches(shard.elements, shard.tensors);
    work.norm = job.costs->stream(bytes / 3, launches / 2);
    work.scaling = job.costs->stream(bytes * 2 / 3, launches - launches / 2);
  }
  return work;
}

// With hybrid groups, transfers of the shard groups and of the replica groups may meet on links. A
// unit has two gathers, and for each micro-batch that reduces, one reduction with its all-reduce.
Engine engine_for(const Job& job, const FsdpLayout& layout) {
  const bool hybrid = layout.groups.hybrid() || layout.node_groups.hybrid();
  const bool meet = hybrid && job.simulation.network == NetworkKind::flow;
  const double each = 2 + 2 * (layout.options.sync_every_micro_batch ? job.passes() : 1);
  return choose_engine(job, meet, each * static_cast<double>(layout.units.size()),
                       alike_steps(job.stragglers));
}

// Adds a note if the device waits for the host for at least a tenth of the step, and FSDP's hooks
// cause at least half of this wait.
void note_many_units(const Job& job, const FsdpLayout& layout, double hook_seconds,
                     StrategyResult& result) {
  constexpr double hooks_of_a_unit = 4;  // before and after, forward and backward
  const auto units = static_cast<double>(layout.units.size());
  const double hooks = hooks_of_a_unit * units * job.passes() * hook_seconds;
  const double waited = result.split.host_bound;
  if (waited < 0.1 * mean(result.step_seconds) || hooks < 0.5 * waited || units < 8) return;
  result.notes.push_back(
      fmt::format("{} units keep the host busy: fewer, as of `wrap: {{policy: size, "
                  "min_parameters: ...}}`, would cost less",
                  layout.units.size()));
}

// Notes about options that the layout has resolved differently from the user's choice.
std::vector<std::string> notes(const Job& job, const FsdpOptions& wanted,
                               const FsdpLayout& layout) {
  std::vector<std::string> result;
  if (job.mesh.copies() == 1 && wanted.sharding != Sharding::no_shard) {
    result.push_back("one GPU shards nothing: FSDP runs as no_shard");
  }
  const bool blocks = std::any_of(job.step->layers.begin(), job.step->layers.end(),
                                  [](const Layer& layer) { return !layer.block.empty(); });
  const bool by_block = wanted.wrap.by_block() || (wanted.wrap.policy == WrapPolicy::automatic &&
                                                   wanted.wrap.min_parameters <= 0);
  if (by_block && !blocks) {
    result.push_back(fmt::format("the model has no repeated blocks: wrapped by size into {} unit{}",
                                 layout.units.size(), layout.units.size() == 1 ? "" : "s"));
  }
  return result;
}

}  // namespace

Updater Fsdp::updater(const Job& job) const {
  const bool offloads =
      options_.offloaded_share() > 0 && job.machine.device.architecture != Architecture::cpu;
  return offloads ? Updater::own_host : Updater::device;
}

int Fsdp::state_ranks(const Job& job) const {
  return fsdp_layout(job, options_).groups.ranks * (job.mesh.gpus() / job.mesh.copies());
}

// FSDP's mixed precision gathers parameters in half precision and runs every operator in half
// precision, including norms, without autocast. Shards, gradients and the optimizer remain in fp32
// (fact 43). Therefore the step's operators are the same as in pure half precision.
Precision Fsdp::compute_precision(Precision precision) const {
  if (options_.gather_bytes > 2) return precision;
  if (precision == Precision::amp_fp16) return Precision::pure_fp16;
  if (precision == Precision::amp_bf16) return Precision::pure_bf16;
  return precision;
}

bool Fsdp::autocasts(Precision precision) const {
  return options_.autocast && compute_precision(precision) != precision;
}

// FSDP1's MixedPrecision leaves batch norms in fp32 if modules are wrapped
// (torch/distributed/fsdp/api.py: _module_classes_to_ignore).
bool Fsdp::widens_batch_norm(Precision precision) const {
  return options_.version == 1 && options_.wrap.policy != WrapPolicy::none &&
         compute_precision(precision) != precision;
}

// If parameters are gathered in half precision, operators compute in half precision (fact 43). The
// element size does not determine whether this is fp16 or bf16, so it must not be smaller than the
// precision's size.
std::optional<Diagnostic> Fsdp::misfit(Precision precision) const {
  if (has_main_gradients(precision)) {
    Diagnostic diagnostic;
    diagnostic.field = "precision";
    diagnostic.message = fmt::format("{}: FSDP accumulates gradients in the type of its shards",
                                     enum_name(precision));
    diagnostic.hint =
        "`amp-bf16` keeps shards and gradients in fp32; `reduce_element_size: 4 B` reduces in it";
    return diagnostic;
  }
  if (options_.gather_bytes <= 0 || options_.gather_bytes >= activation_bytes(precision)) {
    return std::nullopt;
  }
  Diagnostic diagnostic;
  diagnostic.field = "fsdp.gather_element_size";
  diagnostic.message =
      fmt::format("{:g} B are gathered of each parameter, and {} computes with {} B",
                  options_.gather_bytes, enum_name(precision), activation_bytes(precision));
  diagnostic.hint =
      "`precision: amp-bf16` or `amp-fp16` gathers and computes in half precision and keeps "
      "shards in fp32";
  return diagnostic;
}

std::optional<Diagnostic> Fsdp::optimizer_misfit(const OptimizerSpec& optimizer,
                                                 const Device&) const {
  return without_whole_matrices(optimizer, "fsdp", "FSDP's ranks keep shards of them");
}

std::vector<MemoryUse> Fsdp::stage_memory(const Job& job, const MemoryQuery& query) const {
  return memory_of_stages(job, [&](const StageMemory& stage) {
    const FsdpLayout layout = fsdp_layout(stage.job, options_);
    MemoryUse use = memory_use(fsdp_memory(stage, layout, query), job.machine.device);
    add_offloaded(use, fsdp_offloaded_memory(stage.job, layout), job.machine);
    return use;
  });
}

// The units with the bytes of their all-gathers and reductions.
nlohmann::ordered_json Fsdp::communication(const Job& job) const {
  using Json = nlohmann::ordered_json;
  const FsdpLayout layout = fsdp_layout(job, options_);
  Json j;
  j["version"] = options_.version;
  j["units"] = Json::array();
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const FsdpUnit& unit = layout.units[i];
    Json names = Json::array();
    for (const Parameter& parameter : unit.parameters) names.push_back(parameter.name);
    const auto bytes = [&](int of_element) {
      return static_cast<std::int64_t>(layout.layouts[i].elements * of_element);
    };
    j["units"].push_back({{"module", unit.module},
                          {"root", unit.root},
                          {"parameters", std::move(names)},
                          {"gathered_bytes", bytes(layout.gather_bytes_of(unit))},
                          {"reduced_bytes", bytes(layout.reduce_bytes_of(unit))}});
  }
  return j;
}

std::unique_ptr<Strategy> make_strategy(const FsdpOptions& options) {
  return std::make_unique<Fsdp>(options);
}

StrategyResult Fsdp::simulate(const Job& job) const {
  const FsdpLayout layout = fsdp_layout(job, options_);
  TrainingWorld world(
      job, "fsdp", engine_for(job, layout),
      axes_of(job.mesh, layout.node_groups.hybrid() ? layout.node_groups : layout.groups));
  // `on_device`: seconds of the optimizer on a device, mean over stages.
  double hook_seconds = 0, on_device = 0;
  StrategyResult result =
      train(world, [&](TrainingContext& context) -> std::unique_ptr<TrainingHooks> {
        const FsdpLayout of_part = fsdp_layout(context.job, options_);
        FsdpPlan plan = fsdp_plan(context, of_part);
        plan.update = update_of(context.job, of_part, context.network);
        on_device += plan.update.optimizer.busy / static_cast<double>(world.stages.size());
        hook_seconds = plan.hook_seconds;
        if (layout.options.version == 2)
          return std::make_unique<Fsdp2Hooks>(context, std::move(plan));
        return std::make_unique<Fsdp1Hooks>(context, std::move(plan));
      });
  // The device is idle while the host updates.
  if (layout.updates_on_host(job)) {
    result.device_busy -= std::max(0.0, result.split.optimizer - on_device);
  }
  note_many_units(job, layout, hook_seconds, result);
  for (std::string& note : notes(job, options_, layout)) result.notes.push_back(std::move(note));
  return result;
}

}  // namespace lockstep
