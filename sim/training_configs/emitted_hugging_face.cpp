// Writes three formats: DeepSpeed's JSON, accelerate's YAML, and the arguments of Hugging Face's
// Trainer. The files use the keys that deepspeed.cpp, accelerate.cpp and trainer.cpp read, so an
// emitted file imports as the same scenario.
//
//   zero: {stage: 2, bucket_size: 1 GB} -> zero_optimization: {stage: 2, reduce_bucket_size: 5e8}
//   fsdp: {version: 2}                  -> distributed_type: FSDP, fsdp_config: {fsdp_version: 2}
//   precision: amp-bf16                 -> mixed_precision: bf16; torch_autocast of DeepSpeed
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/data.hpp"
#include "core/describe_emit.hpp"
#include "training_configs/emit_plan.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Bytes of an element of DeepSpeed's buckets, whose size DeepSpeed states in elements.
double element_bytes(const EmitPlan& plan) {
  return plan.is_fp16() || plan.is_bf16() ? 2 : 4;
}

std::int64_t elements(double bytes, const EmitPlan& plan) {
  return static_cast<std::int64_t>(std::llround(bytes / element_bytes(plan)));
}

// Adds DeepSpeed's sections for state that is offloaded from the device.
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

// The section `zero_optimization`: stage 0 for DDP, stage 3 for FSDP.
Json zero_json(EmitPlan& plan) {
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
  // MiCS shards over a group of ranks: the GPUs of a node unless the scenario states a number.
  if (fsdp.sharding == Sharding::hybrid_shard)
    zero["mics_shard_size"] = fsdp.shard_group > 0 ? fsdp.shard_group : plan.per_node();
  else if (fsdp.sharding != Sharding::full_shard)
    plan.refuse("DeepSpeed", "sharding: " + enum_name(fsdp.sharding));
  if (fsdp.zeropp.quantized_weights) zero["zero_quantized_weights"] = true;
  if (fsdp.zeropp.quantized_gradients) zero["zero_quantized_gradients"] = true;
  if (fsdp.zeropp.secondary_shards) zero["zero_hpz_partition_size"] = plan.per_node();
  OffloadOptions offload = fsdp.offload;
  // With FSDP's cpu_offload, parameters, gradients and optimizer are on the host.
  if (fsdp.cpu_offload) offload.optimizer = offload.parameters = OffloadTier::host;
  offload_json(offload, zero);
  return zero;
}

}  // namespace

EmittedFile deepspeed_file(EmitPlan& plan) {
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
  // DeepSpeed's mode `bf16` is master-bf16. set_precision() in deepspeed.cpp is the inverse.
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

namespace {

// accelerate's `mixed_precision`.
std::string mixed_word(const EmitPlan& plan) {
  return plan.is_fp16() ? "fp16" : plan.is_bf16() ? "bf16" : "no";
}

// Whether FSDP units are formed by a minimum number of parameters.
bool by_size(const WrapOptions& wrap) {
  return wrap.policy == WrapPolicy::size ||
         (wrap.policy == WrapPolicy::automatic && wrap.min_parameters > 0);
}

// accelerate's `fsdp_config`. Version 2 of FSDP has a key for resharding after forward; version 1
// has keys for a sharding strategy and prefetching. Hybrid sharding and other axes need
// `parallelism_config`, whose degrees multiply to the number of GPUs.
std::string fsdp_section(EmitPlan& plan, const FsdpOptions& fsdp) {
  std::string text = fmt::format("fsdp_config:\n  fsdp_version: {}\n", fsdp.version);
  const bool hybrid =
      fsdp.sharding == Sharding::hybrid_shard || fsdp.sharding == Sharding::hybrid_shard_zero2;
  if (fsdp.version == 2) {
    const bool reshards =
        fsdp.sharding == Sharding::full_shard || fsdp.sharding == Sharding::hybrid_shard;
    text += fmt::format("  fsdp_reshard_after_forward: {}\n", reshards);
  } else {
    std::string name = enum_name(fsdp.sharding);
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
  // Without pipelines and experts, a replica spans tensor x context GPUs.
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

// accelerate's own keys for DeepSpeed, which make a separate DeepSpeed file unnecessary.
std::string deepspeed_section(EmitPlan& plan) {
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

}  // namespace

EmittedFile accelerate_file(EmitPlan& plan) {
  plan.must_be_data_parallel("accelerate");
  if (plan.parallel.pipeline.stages > 1 || plan.parallel.expert.size > 1)
    plan.refuse("accelerate", "stages and experts");
  if (plan.zero() && plan.zero()->reduction == GradientReduction::all_reduce)
    plan.refuse("accelerate", "reduction: all-reduce");
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

// TrainingArguments of transformers, with TRL's max_length. `optim` has one value for each
// implementation of AdamW.
EmittedFile trainer_file(EmitPlan& plan) {
  std::string optimizer = enum_name(plan.scenario.optimizer.name);
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
  plan.must_be_eager("trainer", Compile::whole, true);
  if (plan.point.step_options.compile == Compile::whole) text += "torch_compile: true\n";
  if (plan.point.step_options.fused_kernels) text += "use_liger_kernel: true\n";
  if (plan.scenario.dataset.steps > 0)
    text += fmt::format("max_steps: {}\n", static_cast<std::int64_t>(plan.scenario.dataset.steps));
  plan.notes.emplace_back(
      "how the GPUs work together is the launcher's: --emit accelerate or deepspeed");
  return {"training_arguments.yaml", text, plan.notes};
}

}  // namespace lockstep
