// Writes DeepSpeed JSON, accelerate YAML, Trainer arguments, torchtitan TOML, Megatron-LM scripts, sbatch and SkyPilot
// files.
#include "training_configs/emitted_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/data.hpp"
#include "core/describe_emit.hpp"
#include "core/errors.hpp"
#include "hardware/machine.hpp"
#include "workload/model_file.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

template <class Enum>
std::string name_of(Enum value) {
  return EnumNames<Enum>::names[static_cast<std::size_t>(value)];
}

// A point in the words that all formats share.
class Plan {
 public:
  explicit Plan(const EmitQuestion& question)
      : scenario(*question.scenario),
        point(*question.point),
        entry(scenario.strategies[point.entry]),
        parallel(parallel_of(scenario, entry)),
        longest(question.longest_seconds) {}

  const Scenario& scenario;
  const Point& point;
  const StrategyEntry& entry;
  const ParallelOptions& parallel;
  double longest;
  std::vector<std::string> notes;

  int gpus() const { return point.job.mesh.gpus(); }
  int per_node() const { return std::min(gpus(), point.job.machine.gpus_per_node); }
  int nodes() const { return (gpus() + per_node() - 1) / per_node(); }
  std::int64_t accumulation() const { return point.job.accumulation; }
  std::int64_t sequence() const { return point.tokens_per_sample; }
  bool recomputes() const {
    return entry.activation_checkpointing.value_or(scenario.activation_checkpointing);
  }
  Recompute recompute() const { return entry.recompute.value_or(scenario.recompute); }
  Precision precision() const { return point.precision; }
  bool is_fp16() const {
    return precision() == Precision::amp_fp16 || precision() == Precision::pure_fp16;
  }
  bool is_bf16() const { return precision() >= Precision::amp_bf16 && !is_fp16(); }
  bool is_autocast() const {
    return precision() == Precision::amp_fp16 || precision() == Precision::amp_bf16;
  }
  bool has_mesh() const {
    return parallel.tensor.size > 1 || parallel.context.size > 1 || parallel.pipeline.stages > 1 ||
           parallel.expert.size > 1;
  }

  const DdpOptions* ddp() const { return std::get_if<DdpOptions>(&entry.options); }
  const FsdpOptions* fsdp() const { return std::get_if<FsdpOptions>(&entry.options); }
  const ZeroOptions* zero() const { return std::get_if<ZeroOptions>(&entry.options); }

  [[noreturn]] void refuse(const std::string& format, const std::string& what) const {
    throw ConfigError(
        Diagnostic{entry.where, "strategies", fmt::format("{} cannot say {}", format, what),
                   fmt::format("--emit another: {}", fmt::join(emit_formats(), ", "))});
  }
  void must_be_data_parallel(const std::string& format) const {
    if (!ddp() && !fsdp() && !zero()) refuse(format, strategy_name(entry.options));
  }

  // The optimizer as torch.optim calls it.
  std::string optimizer_class() const {
    constexpr std::array names{"SGD", "Adam", "AdamW", "RMSprop", "Lion", "Lamb", "Muon"};
    return names[static_cast<std::size_t>(scenario.optimizer.name)];
  }
};

double element_bytes(const Plan& plan) {
  return plan.precision() == Precision::pure_fp16 || plan.precision() == Precision::pure_bf16 ||
                 plan.precision() == Precision::master_bf16 ||
                 plan.precision() == Precision::master_bf16_fp32_gradients ||
                 plan.precision() == Precision::amp_fp16 || plan.precision() == Precision::amp_bf16
             ? 2
             : 4;
}

std::int64_t elements(double bytes, const Plan& plan) {
  return static_cast<std::int64_t>(std::llround(bytes / element_bytes(plan)));
}

void offload_json(const OffloadOptions& offload, Json& zero) {
  const auto device = [](OffloadTier tier) { return tier == OffloadTier::host ? "cpu" : "nvme"; };
  if (offload.is_used()) {
    zero["offload_optimizer"] = {{"device", device(offload.optimizer)}};
    if (offload.fraction < 1) zero["offload_optimizer"]["ratio"] = offload.fraction;
    if (offload.overlap) zero["offload_optimizer"]["pipeline_read"] = true;
  }
  if (offload.parameters != OffloadTier::device)
    zero["offload_param"] = {{"device", device(offload.parameters)}};
}

Json zero_json(Plan& plan) {
  Json zero{{"stage", 0}};
  if (const auto* ddp = plan.ddp()) {
    zero["reduce_bucket_size"] = elements(ddp->bucket_bytes, plan);
    if (ddp->overlap)
      plan.notes.emplace_back(
          "DeepSpeed's stage 0 reduces gradients after backward, DDP during it");
    return zero;
  }
  if (const auto* options = plan.zero()) {
    zero["stage"] = options->stage;
    zero["reduce_bucket_size"] = elements(options->bucket_bytes, plan);
    zero["overlap_comm"] = options->overlap;
    if (options->reduction == GradientReduction::all_reduce) zero["reduce_scatter"] = false;
    if (options->shard_group > 0)
      plan.notes.emplace_back("shard_group is not among DeepSpeed's options of stages 1 and 2");
    offload_json(options->offload, zero);
    return zero;
  }
  const FsdpOptions& fsdp = *plan.fsdp();
  zero["stage"] = 3;
  if (fsdp.sharding == Sharding::hybrid_shard)
    zero["mics_shard_size"] = fsdp.shard_group > 0 ? fsdp.shard_group : plan.per_node();
  else if (fsdp.sharding != Sharding::full_shard)
    plan.refuse("DeepSpeed", "sharding: " + name_of(fsdp.sharding));
  if (fsdp.zeropp.quantized_weights) zero["zero_quantized_weights"] = true;
  if (fsdp.zeropp.quantized_gradients) zero["zero_quantized_gradients"] = true;
  if (fsdp.zeropp.secondary_shards) zero["zero_hpz_partition_size"] = plan.per_node();
  OffloadOptions offload = fsdp.offload;
  if (fsdp.cpu_offload) offload.optimizer = offload.parameters = OffloadTier::host;
  offload_json(offload, zero);
  return zero;
}

EmittedFile deepspeed_file(Plan& plan) {
  plan.must_be_data_parallel("DeepSpeed");
  Json config{{"train_micro_batch_size_per_gpu", plan.point.micro_batch},
              {"gradient_accumulation_steps", plan.accumulation()},
              {"train_batch_size", plan.point.global_batch}};
  if (plan.scenario.gradient_clipping > 0)
    config["gradient_clipping"] = plan.scenario.gradient_clipping;
  config["optimizer"] = {
      {"type", plan.optimizer_class()},
      {"params", {{"lr", "auto"}, {"weight_decay", plan.scenario.optimizer.weight_decay}}}};
  plan.notes.emplace_back("lr is \"auto\": the Trainer's, or yours to fill in");
  config["zero_optimization"] = zero_json(plan);
  switch (plan.precision()) {
    case Precision::amp_fp16:
    case Precision::pure_fp16:
      config["fp16"] = {{"enabled", true}};
      break;
    case Precision::amp_bf16:
      config["torch_autocast"] = {{"enabled", true}, {"dtype", "bfloat16"}};
      break;
    case Precision::pure_bf16:
      config["bf16"] = {{"enabled", true},
                        {"bf16_master_weights_and_grads", true},
                        {"bf16_optimizer_states", true}};
      break;
    case Precision::master_bf16_fp32_gradients:
      config["bf16"] = {{"enabled", true}};
      config["data_types"] = {{"grad_accum_dtype", "fp32"}};
      break;
    case Precision::master_bf16:
      config["bf16"] = {{"enabled", true}};
      break;
    case Precision::fp32:
    case Precision::torch_fp32:
    case Precision::tf32:
      break;
  }
  if (plan.parallel.tensor.size > 1)
    config["tensor_parallel"] = {{"autotp_size", plan.parallel.tensor.size}};
  if (plan.parallel.context.size > 1) config["sequence_parallel_size"] = plan.parallel.context.size;
  if (plan.parallel.pipeline.stages > 1 || plan.parallel.expert.size > 1)
    plan.notes.emplace_back("stages and experts are the program's own: no key says them");
  return {"ds_config.json", config.dump(2) + "\n", plan.notes};
}

std::string mixed_word(const Plan& plan) {
  return plan.is_fp16() ? "fp16" : plan.is_bf16() ? "bf16" : "no";
}

bool by_size(const WrapOptions& wrap) {
  return wrap.policy == WrapPolicy::size ||
         (wrap.policy == WrapPolicy::automatic && wrap.min_parameters > 0);
}

std::string fsdp_section(Plan& plan, const FsdpOptions& fsdp) {
  std::string text = fmt::format("fsdp_config:\n  fsdp_version: {}\n", fsdp.version);
  const bool hybrid =
      fsdp.sharding == Sharding::hybrid_shard || fsdp.sharding == Sharding::hybrid_shard_zero2;
  if (fsdp.version == 2) {
    const bool reshards =
        fsdp.sharding == Sharding::full_shard || fsdp.sharding == Sharding::hybrid_shard;
    text += fmt::format("  fsdp_reshard_after_forward: {}\n", reshards);
  } else {
    std::string name = name_of(fsdp.sharding);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    constexpr std::array prefetches{"NO_PREFETCH", "BACKWARD_PRE", "BACKWARD_POST"};
    text += fmt::format(
        "  fsdp_sharding_strategy: {}\n  fsdp_backward_prefetch: {}\n  fsdp_forward_prefetch: {}\n "
        " fsdp_use_orig_params: {}\n",
        name, prefetches[static_cast<std::size_t>(fsdp.backward_prefetch)], fsdp.forward_prefetch,
        fsdp.use_orig_params);
  }
  if (by_size(fsdp.wrap))
    text += fmt::format("  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n  fsdp_min_num_params: {}\n",
                        static_cast<std::int64_t>(fsdp.wrap.min_parameters));
  else if (fsdp.wrap.policy == WrapPolicy::none)
    text += "  fsdp_auto_wrap_policy: NO_WRAP\n";
  else
    text += "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  text += fmt::format("  fsdp_offload_params: {}\n  fsdp_activation_checkpointing: {}\n",
                      fsdp.cpu_offload, plan.recomputes());
  if (!hybrid && !plan.has_mesh()) return text;
  const std::int64_t replica = plan.parallel.tensor.size * plan.parallel.context.size;
  const std::int64_t ranks = plan.gpus() / std::max<std::int64_t>(1, replica);
  const std::int64_t shard = !hybrid                ? ranks
                             : fsdp.shard_group > 0 ? fsdp.shard_group
                                                    : plan.per_node();
  return text + fmt::format(
                    "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n  "
                    "parallelism_config_dp_shard_size: {}\n"
                    "  parallelism_config_tp_size: {}\n  parallelism_config_cp_size: {}\n",
                    ranks / shard, shard, plan.parallel.tensor.size, plan.parallel.context.size);
}

std::string deepspeed_section(Plan& plan) {
  const Json zero = zero_json(plan);
  const auto device = [&](const char* key) {
    return zero.contains(key) ? zero[key]["device"].get<std::string>() : "none";
  };
  std::string text =
      fmt::format("deepspeed_config:\n  zero_stage: {}\n  gradient_accumulation_steps: {}\n",
                  zero["stage"].get<int>(), plan.accumulation());
  if (plan.scenario.gradient_clipping > 0)
    text += fmt::format("  gradient_clipping: {}\n", plan.scenario.gradient_clipping);
  return text +
         fmt::format(
             "  offload_optimizer_device: {}\n  offload_param_device: {}\n  zero3_init_flag: {}\n",
             device("offload_optimizer"), device("offload_param"), zero["stage"] == 3);
}

EmittedFile accelerate_file(Plan& plan) {
  plan.must_be_data_parallel("accelerate");
  if (plan.parallel.pipeline.stages > 1 || plan.parallel.expert.size > 1)
    plan.refuse("accelerate", "stages and experts");
  const char* kind = plan.fsdp()       ? "FSDP"
                     : plan.zero()     ? "DEEPSPEED"
                     : plan.gpus() > 1 ? "MULTI_GPU"
                                       : "'NO'";
  std::string text = fmt::format(
      "compute_environment: LOCAL_MACHINE\ndistributed_type: {}\nmixed_precision: "
      "'{}'\nnum_machines: {}\nnum_processes: {}\n",
      kind, mixed_word(plan), plan.nodes(), plan.gpus());
  if (const auto* fsdp = plan.fsdp()) text += fsdp_section(plan, *fsdp);
  if (plan.zero()) text += deepspeed_section(plan);
  if (plan.ddp() && plan.has_mesh()) plan.refuse("accelerate", "a mesh beside DDP");
  plan.notes.emplace_back("the batch is the program's: --emit trainer");
  return {"accelerate.yaml", text, plan.notes};
}

EmittedFile trainer_file(Plan& plan) {
  std::string optimizer = name_of(plan.scenario.optimizer.name);
  const bool adamw = plan.scenario.optimizer.name == OptimizerKind::adamw;
  if (adamw)
    optimizer = plan.scenario.optimizer.implementation == OptimizerImplementation::fused
                    ? "adamw_torch_fused"
                    : "adamw_torch";
  std::string text = fmt::format(
      "model_name_or_path: {}\nper_device_train_batch_size: {}\ngradient_accumulation_steps: {}\n",
      fields::yaml_text(stem_of(plan.scenario.model)), plan.point.micro_batch, plan.accumulation());
  if (plan.sequence() > 0) text += fmt::format("max_length: {}\n", plan.sequence());
  text += fmt::format(
      "bf16: {}\nfp16: {}\ntf32: {}\ngradient_checkpointing: {}\noptim: {}\nweight_decay: "
      "{}\nmax_grad_norm: {}\n",
      plan.is_bf16(), plan.is_fp16(), plan.precision() == Precision::tf32, plan.recomputes(),
      optimizer, plan.scenario.optimizer.weight_decay, plan.scenario.gradient_clipping);
  if (plan.precision() == Precision::pure_bf16) text += "dtype: bfloat16\n";
  if (plan.scenario.attention == AttentionKind::plain) text += "attn_implementation: eager\n";
  if (plan.scenario.dataset.steps > 0)
    text += fmt::format("max_steps: {}\n", static_cast<std::int64_t>(plan.scenario.dataset.steps));
  plan.notes.emplace_back(
      "how the GPUs work together is the launcher's: --emit accelerate or deepspeed");
  return {"training_arguments.yaml", text, plan.notes};
}

// torchtitan's name and flavor of a shipped model.
std::pair<std::string, std::string> titan_model(const Plan& plan) {
  static const std::map<std::string, std::pair<std::string, std::string>> known{
      {"llama3-8b", {"llama3", "8B"}},         {"llama3-70b", {"llama3", "70B"}},
      {"llama3.1-405b", {"llama3", "405B"}},   {"deepseek-v3", {"deepseek_v3", "671B"}},
      {"qwen3-8b", {"qwen3", "8B"}},           {"qwen3-32b", {"qwen3", "32B"}},
      {"qwen3-30b-a3b", {"qwen3", "30B-A3B"}}, {"qwen3-235b-a22b", {"qwen3", "235B-A22B"}}};
  const auto found = known.find(stem_of(plan.scenario.model));
  if (found == known.end() || !plan.scenario.model_parameters.empty())
    plan.refuse("torchtitan",
                fmt::format("the model {}: it has no flavor of it", plan.scenario.model));
  return found->second;
}

std::string titan_schedule(const Plan& plan) {
  switch (plan.parallel.pipeline.schedule) {
    case PipelineSchedule::gpipe:
      return "GPipe";
    case PipelineSchedule::one_f_one_b:
      return "1F1B";
    case PipelineSchedule::interleaved:
      return "Interleaved1F1B";
    case PipelineSchedule::looped_bfs:
      return "LoopedBFS";
    case PipelineSchedule::zb1p:
      return "InterleavedZeroBubble";
    case PipelineSchedule::zbv:
      return "ZBVZeroBubble";
    case PipelineSchedule::dualpipe_v:
      return "DualPipeV";
    default:
      plan.refuse("torchtitan", "schedule: " + name_of(plan.parallel.pipeline.schedule));
  }
}

EmittedFile titan_file(Plan& plan) {
  const FsdpOptions* fsdp = plan.fsdp();
  if (!fsdp && !plan.ddp()) plan.refuse("torchtitan", strategy_name(plan.entry.options));
  const auto [name, flavor] = titan_model(plan);
  const ParallelOptions& parallel = plan.parallel;
  const std::int64_t replica =
      parallel.tensor.size * parallel.context.size * parallel.pipeline.stages;
  const std::int64_t ranks = plan.gpus() / replica;
  const bool hybrid = fsdp && (fsdp->sharding == Sharding::hybrid_shard ||
                               fsdp->sharding == Sharding::hybrid_shard_zero2);
  const std::int64_t shard = !fsdp ? 1
                             : hybrid
                                 ? (fsdp->shard_group > 0 ? fsdp->shard_group : plan.per_node())
                                 : ranks;
  const bool keeps = fsdp && (fsdp->sharding == Sharding::shard_grad_op ||
                              fsdp->sharding == Sharding::hybrid_shard_zero2);
  const bool staged = parallel.pipeline.stages > 1;
  const std::int64_t local =
      staged ? plan.point.micro_batch * plan.accumulation() : plan.point.micro_batch;
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::string text = fmt::format(
      "[model]\nname = \"{}\"\nflavor = \"{}\"\n\n[optimizer]\nname = \"{}\"\nimplementation = "
      "\"{}\"\nweight_decay = {}\n\n",
      name, flavor, plan.optimizer_class(), name_of(plan.scenario.optimizer.implementation),
      plan.scenario.optimizer.weight_decay);
  text += fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nmax_norm = "
      "{}\nenable_cpu_offload = {}\n",
      local, plan.point.global_batch, plan.sequence(), plan.scenario.gradient_clipping,
      flag(fsdp && fsdp->cpu_offload));
  if (plan.scenario.dataset.steps > 0)
    text += fmt::format("steps = {}\n", static_cast<std::int64_t>(plan.scenario.dataset.steps));
  if (!plan.is_autocast()) {
    text += fmt::format("dtype = \"{}\"\nmixed_precision_param = \"{}\"\n",
                        plan.is_bf16() ? "bfloat16" : "float32",
                        plan.is_bf16() ? "bfloat16" : "float32");
  }
  text += fmt::format(
      "\n[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = "
      "{}\nfsdp_reshard_after_forward = \"{}\"\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\npipeline_parallel_degree = "
      "{}\nexpert_parallel_degree = {}\n",
      ranks / shard, shard, keeps ? "never" : "always", parallel.tensor.size, parallel.context.size,
      parallel.pipeline.stages, parallel.expert.size);
  if (staged)
    text +=
        fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                    titan_schedule(plan), plan.point.micro_batch);
  const bool operators = plan.recompute() == Recompute::operators;
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\nselective_ac_option = \"op\"\n",
                      !plan.recomputes() ? "none"
                      : operators        ? "selective"
                                         : "full");
  plan.notes.emplace_back("torchtitan until February 2026 reads TOML");
  return {"train.toml", text, plan.notes};
}

// Model parameters by name, defaults and overrides; later ones may use earlier ones.
std::map<std::string, std::int64_t> sizes_of(const Plan& plan) {
  std::map<std::string, std::int64_t> sizes;
  Scope scope;
  for (const auto& [name, expression] : plan.point.model->parameters) {
    const auto given = plan.scenario.model_parameters.find(name);
    const bool said = given != plan.scenario.model_parameters.end();
    sizes[name] = said ? given->second : expression.evaluate(scope);
    scope.set(name, sizes[name]);
  }
  return sizes;
}

EmittedFile megatron_file(Plan& plan) {
  const ZeroOptions* zero = plan.zero();
  const FsdpOptions* fsdp = plan.fsdp();
  if (!zero && !fsdp && !plan.ddp()) plan.refuse("Megatron-LM", strategy_name(plan.entry.options));
  const std::map<std::string, std::int64_t> sizes = sizes_of(plan);
  const auto size = [&](const char* name, std::int64_t absent) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? absent : found->second;
  };
  if (!sizes.contains("layers") || !sizes.contains("hidden") || !sizes.contains("heads"))
    plan.refuse("Megatron-LM", fmt::format("the model {}", plan.scenario.model));
  std::vector<std::string> arguments;
  const auto add = [&](const char* name, const auto& value) {
    arguments.push_back(fmt::format("--{} {}", name, value));
  };
  const auto flag = [&](const char* name, bool on) {
    if (on) arguments.push_back(fmt::format("--{}", name));
  };
  add("num-layers", size("layers", 0));
  add("hidden-size", size("hidden", 0));
  add("num-attention-heads", size("heads", 0));
  const bool gated = sizes.contains("kv_heads");
  add("ffn-hidden-size", size("mlp", 4 * size("hidden", 0)));
  if (gated) {
    flag("group-query-attention", true);
    add("num-query-groups", size("kv_heads", 0));
    add("kv-channels", size("head_size", size("hidden", 0) / size("heads", 1)));
    flag("swiglu", true);
    add("normalization", "RMSNorm");
    add("position-embedding-type", "rope");
    flag("disable-bias-linear", true);
    flag("add-qkv-bias", size("biases", 0) != 0);
    flag("qk-layernorm", size("head_norm", 0) != 0);
    add("hidden-dropout", 0.0);
    add("attention-dropout", 0.0);
  } else {
    flag("disable-bias-linear", size("biases", 1) == 0);
    if (size("dropout", 0) == 0) add("hidden-dropout", 0.0), add("attention-dropout", 0.0);
  }
  flag("untie-embeddings-and-output-weights", size("tied", gated ? 0 : 1) == 0);
  if (sizes.contains("experts"))
    add("num-experts", size("experts", 0)), add("moe-router-topk", size("top", 1));
  add("padded-vocab-size", size("vocabulary", 0));
  add("seq-length", plan.sequence());
  add("max-position-embeddings", plan.sequence());
  add("micro-batch-size", plan.point.micro_batch);
  add("global-batch-size", plan.point.global_batch);
  const ParallelOptions& parallel = plan.parallel;
  add("tensor-model-parallel-size", parallel.tensor.size);
  flag("sequence-parallel", parallel.tensor.sequence && parallel.tensor.size > 1);
  add("pipeline-model-parallel-size", parallel.pipeline.stages);
  if (parallel.pipeline.schedule == PipelineSchedule::interleaved && parallel.pipeline.stages > 1)
    add("num-virtual-stages-per-pipeline-rank",
        std::max<std::int64_t>(2, parallel.pipeline.chunks));
  add("context-parallel-size", parallel.context.size);
  if (parallel.expert.size > 1) {
    add("expert-model-parallel-size", parallel.expert.size);
    if (parallel.expert.tensor > 0) add("expert-tensor-parallel-size", parallel.expert.tensor);
    add("moe-token-dispatcher-type",
        parallel.expert.dispatch == ExpertDispatch::gather ? "allgather" : "alltoall");
  }
  flag("use-distributed-optimizer", zero != nullptr);
  flag("overlap-grad-reduce", zero ? zero->overlap : plan.ddp() && plan.ddp()->overlap);
  flag("overlap-param-gather", zero && zero->gather == ParameterGather::with_forward);
  flag("use-torch-fsdp2", fsdp != nullptr);
  flag("bf16", plan.is_bf16());
  flag("fp16", plan.is_fp16());
  flag("grad-reduce-in-bf16", plan.precision() == Precision::master_bf16);
  if (plan.recomputes()) {
    const bool attention = plan.recompute() == Recompute::attention;
    add("recompute-granularity", attention ? "selective" : "full");
    if (!attention) add("recompute-method", "uniform"), add("recompute-num-layers", 1);
  }
  add("attention-backend", plan.scenario.attention == AttentionKind::fused ? "flash" : "unfused");
  add("weight-decay", plan.scenario.optimizer.weight_decay);
  add("clip-grad", plan.scenario.gradient_clipping);
  if (plan.scenario.dataset.steps > 0)
    add("train-iters", static_cast<std::int64_t>(plan.scenario.dataset.steps));
  plan.notes.emplace_back("data, tokenizer and learning rate are yours to fill in");
  return {"train.sh",
          fmt::format("#!/bin/bash\nset -euo pipefail\nARGS=(\n  {}\n)\ntorchrun --nproc_per_node "
                      "{} --nnodes {} pretrain_gpt.py \"${{ARGS[@]}}\" \"$@\"\n",
                      fmt::join(arguments, "\n  "), plan.per_node(), plan.nodes()),
          plan.notes};
}

std::string time_limit(double seconds) {
  const auto minutes = static_cast<std::int64_t>(std::ceil(seconds / 60));
  return fmt::format("{:02}:{:02}:00", minutes / 60, minutes % 60);
}

EmittedFile sbatch_file(Plan& plan) {
  std::string text = fmt::format(
      "#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH "
      "--ntasks-per-node=1\n#SBATCH --gpus-per-node={}\n",
      fields::yaml_text(stem_of(plan.scenario.file)), plan.nodes(), plan.per_node());
  if (plan.longest > 0) {
    text += fmt::format("#SBATCH --time={}\n", time_limit(plan.longest));
  } else {
    plan.notes.emplace_back("no time limit: the scenario has no dataset");
  }
  text += fmt::format(
      "set -euo pipefail\nsrun torchrun --nnodes {} --nproc_per_node {} --rdzv_backend c10d "
      "--rdzv_endpoint \"$(hostname):29500\" train.py \"$@\"\n",
      plan.nodes(), plan.per_node());
  return {"train.sbatch", text, plan.notes};
}

// As SkyPilot's catalogue calls it.
std::string accelerator(const Plan& plan) {
  constexpr std::array<std::pair<const char*, const char*>, 13> names{
      {{"h100", "H100"},
       {"h200", "H200"},
       {"b200", "B200"},
       {"a100-sxm4-80gb", "A100-80GB"},
       {"a100-pcie-80gb", "A100-80GB"},
       {"a100", "A100"},
       {"a10g", "A10G"},
       {"a10", "A10"},
       {"v100", "V100"},
       {"l40s", "L40S"},
       {"l4", "L4"},
       {"t4", "T4"},
       {"rtx3090", "RTX3090"}}};
  const std::string device = stem_of(plan.point.job.machine.device.name);
  for (const auto& [ours, theirs] : names) {
    if (device.starts_with(ours)) return theirs;
  }
  plan.refuse("SkyPilot", "the device " + device);
}

EmittedFile skypilot_file(Plan& plan) {
  std::string text = fmt::format("name: {}\nnum_nodes: {}\nresources:\n  accelerators: {}:{}\n",
                                 fields::yaml_text(stem_of(plan.scenario.file)), plan.nodes(),
                                 accelerator(plan), plan.per_node());
  if (plan.longest > 0)
    text += fmt::format("# The run takes at most {} (the upper end of the interval).\n",
                        time_limit(plan.longest));
  text += fmt::format(
      "run: |\n  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node {} --node_rank "
      "$SKYPILOT_NODE_RANK \\\n"
      "    --master_addr $(echo \"$SKYPILOT_NODE_IPS\" | head -n1) --master_port 29500 train.py\n",
      plan.per_node());
  return {"train.sky.yaml", text, plan.notes};
}

struct Emitter {
  const char* name;
  EmittedFile (*write)(Plan& plan);
};
constexpr std::array emitters{
    Emitter{"deepspeed", deepspeed_file}, Emitter{"accelerate", accelerate_file},
    Emitter{"trainer", trainer_file},     Emitter{"torchtitan", titan_file},
    Emitter{"megatron", megatron_file},   Emitter{"sbatch", sbatch_file},
    Emitter{"skypilot", skypilot_file}};

}  // namespace

const std::vector<std::string>& emit_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Emitter& emitter : emitters) list.emplace_back(emitter.name);
    return list;
  }();
  return names;
}

EmittedFile emitted_config(const std::string& format, const EmitQuestion& question) {
  for (const Emitter& emitter : emitters) {
    if (format != emitter.name) continue;
    Plan plan(question);
    return emitter.write(plan);
  }
  throw file_error("", "--emit", in_quotes(format) + " is no format",
                   allowed_hint(format, emit_formats()));
}

}  // namespace lockstep
