// The training step around FSDP's hooks: micro-batches, clipping, optimizer. Numbers in brackets:
// facts of docs/strategies.md.
#include "strategies/fsdp/fsdp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "memory/step_memory.hpp"
#include "strategies/fsdp/runtime.hpp"

namespace lockstep {

namespace {

// Ranks of the job on its fullest host.
int ranks_per_host(const Job& job) {
  return std::min(job.gpus, job.machine.gpus_per_node);
}

// Streaming through the host's memory reaches 0.8 of its bandwidth, as in host_optimizer_seconds().
double host_stream_seconds(double bytes, const HostSpec& host) {
  return host.memory_bandwidth > 0 ? bytes / (0.8 * host.memory_bandwidth) : 0;
}

// Lane indices by process group, when every rank is a lane of its own; otherwise all ranks are
// alike and one group stands for all.
std::vector<std::vector<int>> shard_lanes(const FsdpLayout& layout, std::size_t lanes) {
  if (!layout.sharded() || layout.replicas == 1 || lanes == 1) return {};
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(layout.replicas));
  for (int rank = 0; rank < static_cast<int>(lanes); ++rank) {
    groups[static_cast<std::size_t>(rank / layout.shard_ranks)].push_back(rank);
  }
  return groups;
}

std::vector<std::vector<int>> replica_lanes(const FsdpLayout& layout, std::size_t lanes) {
  if (lanes == 1) return {};
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(layout.shard_ranks));
  for (int rank = 0; rank < static_cast<int>(lanes); ++rank) {
    groups[static_cast<std::size_t>(rank % layout.shard_ranks)].push_back(rank);
  }
  return groups;
}

class FsdpRun {
 public:
  FsdpRun(const Job& job, const FsdpOptions& options);
  StrategyResult run();

 private:
  Engine engine() const;
  template <class Runtime>
  Program one_step(Runtime& runtime);
  template <class Runtime>
  Program play(Runtime& runtime, const std::vector<FsdpOp>& program, Phase phase);
  void reduce_scalar();
  void note_many_units(StrategyResult& result) const;
  Program update(Event gradients);

  const Job& job_;
  const FsdpLayout layout_;
  const StepCosts costs_;
  const RankSpeeds speeds_;
  const Engine engine_;
  World world_;
  JobNetwork network_;
  RankGroup& ranks_;
  Communicator& shards_;
  Communicator& replicas_;
  // Of the step that is being issued, and what every step has of it.
  ProvenanceTally provenance_, always_;
  const FsdpPlan plan_;
  InputPipeline input_;
  const StreamId host_optimizer_;
  QueuedWork norm_, scaling_, optimizer_;
  double host_update_ = 0;  // CPU offload: clipping and optimizer on the host
};

FsdpRun::FsdpRun(const Job& job, const FsdpOptions& options)
    : job_(job),
      layout_(fsdp_layout(job, options)),
      costs_(step_costs(job)),
      speeds_(job.stragglers, job.gpus, job.seed, layout_.replicas == 1 || !layout_.sharded()),
      engine_(engine()),
      world_({.network = job.network, .engine = engine_}),
      network_(world_, job),
      ranks_(world_.add_ranks({.name = "fsdp",
                               .ranks_per_lane = speeds_.ranks_per_lane(),
                               .slowdown = interference_of(job, costs_),
                               .one_thread = one_thread(job)})),
      shards_(
          ranks_.add_communicator("shards", shard_lanes(layout_, speeds_.ranks_per_lane().size()))),
      // Without both kinds of groups one communicator serves all.
      replicas_(layout_.sharded() && layout_.replicas > 1
                    ? ranks_.add_communicator(
                          "replicas", replica_lanes(layout_, speeds_.ranks_per_lane().size()))
                    : shards_),
      plan_(fsdp_plan(job, layout_, costs_, network_)),
      input_(job, ranks_, network_),
      host_optimizer_(ranks_.add_stream("host optimizer", WaitCause::optimizer)) {
  for (const LayerCost& layer : costs_.layers) {
    always_.add(layer.forward, job.accumulation);
    always_.add(layer.backward, job.accumulation);
  }
  always_.add(input_.copy(), job.accumulation);
  const double elements = layout_.optimizer_elements();
  const int tensors = layout_.optimizer_tensors();
  const Precision precision = job.step.precision;
  const bool clips = job.gradient_clipping > 0;
  if (layout_.options.cpu_offload && job.machine.device.architecture != Architecture::cpu) {
    // All ranks of a host share its memory bandwidth [44].
    const double on_host = elements * ranks_per_host(job);
    host_update_ = host_optimizer_seconds(job.optimizer, precision, on_host, job.machine.host);
    if (clips) {
      host_update_ += host_stream_seconds(clipping_bytes(precision, on_host), job.machine.host);
    }
    always_.add(Provenance::modelled, host_update_);
    return;
  }
  optimizer_ = job.costs->optimizer(job.optimizer, precision, elements, tensors);
  if (clips) {
    // One reading pass for the norm, one read-and-write pass to scale.
    const double bytes = clipping_bytes(precision, elements);
    const int launches = clipping_launches(elements, tensors);
    norm_ = job.costs->stream(bytes / 3, launches / 2);
    scaling_ = job.costs->stream(bytes * 2 / 3, launches - launches / 2);
  }
  for (const QueuedWork& work : {optimizer_, norm_, scaling_}) always_.add(work);
}

// Gathers and reductions meet those between replicas.
Engine FsdpRun::engine() const {
  const bool meet = layout_.sharded() && layout_.replicas > 1 && job_.network == NetworkKind::flow;
  const double each = 2 + 2 * (layout_.options.sync_every_micro_batch ? job_.accumulation : 1);
  return choose_engine(job_, meet, each * static_cast<double>(layout_.units.size()),
                       !speeds_.random());
}

template <class Runtime>
Program FsdpRun::one_step(Runtime& runtime) {
  provenance_ = always_;
  Event gradients;
  for (int micro = 0; micro < job_.accumulation; ++micro) {
    const bool reduces = layout_.options.sync_every_micro_batch || micro + 1 == job_.accumulation;
    co_await input_.next_batch();
    runtime.begin_forward(micro == 0, reduces);
    co_await play(runtime, plan_.forward, Phase::forward);
    co_await play(runtime, plan_.backward, Phase::backward);
    gradients = runtime.end_backward();
    if (layout_.options.cpu_offload && reduces) co_await ranks_.host_wait(gradients);  // [42, 59]
  }
  co_await update(gradients);
}

template <class Runtime>
Program FsdpRun::play(Runtime& runtime, const std::vector<FsdpOp>& program, Phase phase) {
  for (const FsdpOp& op : program) {
    switch (op.hook) {
      case FsdpHook::layers:
        ranks_.compute(phase, op.work);
        break;
      case FsdpHook::pre_forward:
        co_await runtime.pre_forward(op.unit);
        break;
      case FsdpHook::post_forward:
        runtime.post_forward(op.unit);
        break;
      case FsdpHook::pre_backward:
        co_await runtime.pre_backward(op.unit);
        break;
      case FsdpHook::post_backward:
        co_await runtime.post_backward(op.unit);
        break;
    }
  }
}

// The compute stream waits for one number from everybody in the shard group.
void FsdpRun::reduce_scalar() {
  if (plan_.scalar.seconds <= 0) return;
  provenance_.add(plan_.scalar);
  ranks_.wait(issue_collective(ranks_, shards_, plan_.scalar.spec, ranks_.record()));
}

Program FsdpRun::update(Event gradients) {
  if (host_update_ > 0) {
    co_await ranks_.host_wait(gradients);
    if (job_.gradient_clipping > 0) {
      reduce_scalar();
      co_await ranks_.host_wait(ranks_.record());  // the norm goes back to the host
    }
    ranks_.wait(ranks_.host_position());
    // Nothing of the next step can begin before.
    const Event updated = ranks_.enqueue(host_optimizer_, host_update_);
    ranks_.wait(updated);
    co_await ranks_.host_wait(updated);
    co_return;
  }
  if (job_.gradient_clipping > 0) {
    ranks_.compute(Phase::copies, norm_);
    reduce_scalar();  // every rank has the norm of its shards only
    ranks_.compute(Phase::copies, scaling_);
  }
  if (optimizer_synchronises(job_.step.precision)) {
    reduce_scalar();  // found_inf of the sharded GradScaler
    co_await ranks_.host_wait(ranks_.record());
  }
  ranks_.compute(Phase::optimizer, optimizer_);
}

// Said where hooks are most of what the host is waited for, and that is much.
void FsdpRun::note_many_units(StrategyResult& result) const {
  constexpr double hooks_of_a_unit = 4;  // before and after, forward and backward
  const auto units = static_cast<double>(layout_.units.size());
  const double hooks = hooks_of_a_unit * units * job_.accumulation * plan_.hook_seconds;
  const double waited = result.split.host_bound;
  if (waited < 0.1 * mean(result.step_seconds) || hooks < 0.5 * waited || units < 8) return;
  result.notes.push_back(
      fmt::format("{} units keep the host busy: fewer, as of `wrap: {{policy: size, "
                  "min_parameters: ...}}`, would cost less",
                  layout_.units.size()));
}

StrategyResult FsdpRun::run() {
  StrategyResult result;
  const FsdpStage stage{plan_, ranks_, shards_, replicas_, provenance_};
  if (layout_.options.version == 2) {
    Fsdp2Runtime runtime(stage);
    run_steps(
        world_, ranks_, speeds_, job_, [&](int) { return one_step(runtime); }, result);
  } else {
    Fsdp1Runtime runtime(stage);
    run_steps(
        world_, ranks_, speeds_, job_, [&](int) { return one_step(runtime); }, result);
  }
  if (host_update_ > 0) result.device_busy -= result.split.optimizer;  // the device is idle
  note_many_units(result);
  result.engine = engine_;
  result.provenance = provenance_.share();
  result.samples_per_step = static_cast<double>(job_.step.samples) * job_.gpus * job_.accumulation;
  return result;
}

std::vector<std::string> notes(const Job& job, const FsdpOptions& wanted,
                               const FsdpLayout& layout) {
  std::vector<std::string> result;
  if (job.gpus == 1 && wanted.sharding != Sharding::no_shard) {
    result.push_back("one GPU shards nothing: FSDP runs as no_shard");
  }
  const bool blocks = std::any_of(job.step.layers.begin(), job.step.layers.end(),
                                  [](const Layer& layer) { return !layer.block.empty(); });
  const bool by_block =
      wanted.wrap.policy == WrapPolicy::block ||
      (wanted.wrap.policy == WrapPolicy::automatic && wanted.wrap.min_parameters <= 0);
  if (by_block && !blocks) {
    result.push_back(fmt::format("the model has no repeated blocks: wrapped by size into {} unit{}",
                                 layout.units.size(), layout.units.size() == 1 ? "" : "s"));
  }
  return result;
}

}  // namespace

Updater Fsdp::updater(const Job& job) const {
  const bool offloads =
      options_.cpu_offload && job.machine.device.architecture != Architecture::cpu;
  return offloads ? Updater::own_host : Updater::device;
}

// FSDP's mixed precision gathers parameters in the precision of compute and runs every operator in
// it, norms included, without autocast; shards, gradients and the optimizer stay fp32 (fact 43).
// The step is that of pure half precision then.
Precision Fsdp::compute_precision(Precision precision) const {
  if (options_.gather_bytes > 2) return precision;
  if (precision == Precision::amp_fp16) return Precision::pure_fp16;
  if (precision == Precision::amp_bf16) return Precision::pure_bf16;
  return precision;
}

// Parameters gathered in a half-precision type are computed in it (fact 43), and only the precision
// says which type that is.
std::optional<Diagnostic> Fsdp::misfit(Precision precision) const {
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

MemoryUse Fsdp::memory(const Job& job) const {
  const MemoryPlan plan = fsdp_memory_plan(job, fsdp_layout(job, options_));
  return memory_use(step_memory(job.step, plan, job.machine.device));
}

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
                          {"gathered_bytes", bytes(layout.gather_bytes)},
                          {"reduced_bytes", bytes(layout.reduce_bytes)}});
  }
  return j;
}

std::unique_ptr<Strategy> make_strategy(const FsdpOptions& options) {
  return std::make_unique<Fsdp>(options);
}

StrategyResult Fsdp::simulate(const Job& job) const {
  const FsdpLayout layout = fsdp_layout(job, options_);
  StrategyResult result = FsdpRun(job, options_).run();
  result.memory = memory(job);
  result.memory_capacity = job.machine.device.memory_bytes;
  for (std::string& note : notes(job, options_, layout)) result.notes.push_back(std::move(note));
  return result;
}

}  // namespace lockstep
