// Interprets configs of DeepSpeed's engine (runtime/config.py, runtime/zero/config.py,
// runtime/engine.py): chooses the strategy by the stage, converts buckets from elements to bytes,
// and finds the precision.
//
//   zero_optimization.stage 0            -> ddp without overlap
//   zero_optimization.stage 1, 2         -> zero: {stage: 1 or 2}
//   zero_optimization.stage 3            -> fsdp: {version: 2}; mics_shard_size -> hybrid_shard
//   reduce_bucket_size (elements, 5e8)   -> bucket_size = elements x 2 B (fp16, bf16) or 4 B
//   offload_optimizer.device cpu, nvme   -> offload.optimizer host, nvme
//   zero_quantized_weights, zero_quantized_gradients, zero_hpz_partition_size -> fsdp.zeropp.*
//   fp16.enabled -> pure-fp16            bf16.enabled -> master-bf16
#include <fmt/format.h>

#include "training_configs/interpretation.hpp"

namespace lockstep {

void Interpreted::derive(const std::string& name, const std::string& value,
                         const std::string& from) {
  const Fact* source = facts.find(from);
  facts.replace(name, {value, source ? source->where : Location{}, source ? source->key : ""});
}

namespace {

// The 16-bit mode, and the fact that states it.
struct HalfPrecision {
  bool fp16 = false, bf16 = false;
  std::string from;
};

// The 16-bit mode by DeepSpeed's own switches, or, without these, by switches of the Trainer or
// accelerate. Throws ConfigError if they contradict each other, as the Trainer does.
HalfPrecision half_precision(Facts& facts) {
  HalfPrecision half;
  half.fp16 = facts.flag("deepspeed.fp16");
  half.bf16 = facts.flag("deepspeed.bf16");
  if (half.fp16) half.from = "deepspeed.fp16";
  if (half.bf16) half.from = "deepspeed.bf16";
  const std::string mixed = facts.word("mixed", "");
  const bool contradicts = (half.fp16 && mixed == "bf16") || (half.bf16 && mixed == "fp16");
  if (contradicts) {
    const Fact& other = *facts.peek("mixed");
    throw ConfigError(Diagnostic{
        other.where, other.key,
        fmt::format("{} contradicts {} of the DeepSpeed file", mixed, facts.peek(half.from)->key),
        "the two must agree"});
  }
  if (!half.from.empty()) return half;
  half.fp16 = mixed == "fp16";
  half.bf16 = mixed == "bf16" || mixed == "fp8";
  if (half.fp16 || half.bf16) half.from = "mixed";
  return half;
}

// fp16 and bf16 have fp32 master weights by default; torch_autocast keeps fp32 weights. With
// bf16_master_weights_and_grads the master weights are bf16; data_types.grad_accum_dtype: fp32
// makes the gradients fp32.
void set_precision(Interpreted& run, const HalfPrecision& half) {
  Facts& facts = run.facts;
  const bool narrow =
      facts.flag("deepspeed.narrow_master") || facts.flag("deepspeed.narrow_states");
  const bool wide = facts.word("deepspeed.accumulation_type", "") == "fp32";
  if (half.fp16) {
    run.derive("precision", "pure-fp16", half.from);
  } else if (half.bf16) {
    run.derive("precision",
               narrow ? "pure-bf16"
               : wide ? "master-bf16-fp32-gradients"
                      : "master-bf16",
               half.from);
    if (narrow)
      run.notes.push_back(
          "bf16 master weights are priced as the weights themselves: 2 bytes for each "
          "parameter are missing");
  } else if (facts.flag("deepspeed.autocast")) {
    // The name "bfloat16" contains "float16", so both must be tested.
    const std::string type = facts.word("deepspeed.autocast_type", "bfloat16");
    run.derive(
        "precision",
        type.find("float16") != std::string::npos && type.find("bfloat16") == std::string::npos
            ? "amp-fp16"
            : "amp-bf16",
        "deepspeed.autocast");
  } else if (!facts.has("precision") && !facts.has("undecided.precision")) {
    facts.set_default("precision", "torch-fp32", "DeepSpeed without fp16 and bf16");
  }
}

// The size of a bucket as a scenario states it, in bytes. DeepSpeed states its elements.
std::string bytes_of(double elements, double element) {
  return fmt::format("{} B", static_cast<std::int64_t>(elements * element));
}

// The scenario's name for a device to which DeepSpeed offloads.
std::string tier(const std::string& device) {
  return device == "cpu" ? "host" : device;
}

// States the offload of stages 1 to 3. Below stage 3 the parameters stay on the device, even if the
// file offloads them. DeepSpeed's CPU Adam updates in one pass over memory; `torch_adam` selects
// PyTorch's optimizer, with one pass for each operation.
void set_offload(Interpreted& run, const std::string& strategy, int level) {
  Facts& facts = run.facts;
  const std::string optimizer = facts.word("offload.optimizer", "none");
  if (optimizer != "none") {
    run.derive(strategy + ".offload.optimizer", tier(optimizer), "offload.optimizer");
    if (facts.has("offload.fraction"))
      run.derive(strategy + ".offload.fraction", *facts.text("offload.fraction"),
                 "offload.fraction");
    if (facts.flag("deepspeed.torch_adam"))
      run.derive(strategy + ".offload.update", "separate", "deepspeed.torch_adam");
    if (facts.flag("deepspeed.offload_pipeline"))
      run.derive(strategy + ".offload.overlap", "true", "deepspeed.offload_pipeline");
  }
  if (level < 3) return;
  const std::string parameters = facts.word("offload.parameters", "none");
  if (parameters == "none") return;
  run.derive("fsdp.offload.parameters", tier(parameters), "offload.parameters");
  // sub_group_size matters only if the optimizer's state is offloaded. A scenario allows no fewer
  // than 1000 parameters.
  const bool sub_groups = facts.has("deepspeed.sub_group") && optimizer != "none";
  if (sub_groups && facts.number("deepspeed.sub_group").value_or(0) >= 1e3)
    run.derive("fsdp.offload.sub_group", *facts.text("deepspeed.sub_group"), "deepspeed.sub_group");
}

// States stage 3 as FSDP2. MiCS (mics_shard_size) shards over a part of the ranks, which is hybrid
// sharding. hpZ (zero_hpz_partition_size) stores secondary shards within a node.
void set_stage_3(Interpreted& run) {
  Facts& facts = run.facts;
  run.derive("strategy", "fsdp", "zero.level");
  run.derive("fsdp.version", "2", "zero.level");
  if (facts.count("deepspeed.shard_group").value_or(-1) > 0) {
    run.derive("fsdp.sharding", "hybrid_shard", "deepspeed.shard_group");
    run.derive("fsdp.shard_group", *facts.text("deepspeed.shard_group"), "deepspeed.shard_group");
  }
  if (facts.count("deepspeed.secondary").value_or(1) > 1) {
    run.derive("fsdp.zeropp.secondary_shards", "true", "deepspeed.secondary");
    run.notes.push_back(fmt::format("secondary shards over {} GPUs are priced as one node's",
                                    *facts.text("deepspeed.secondary")));
  }
  if (facts.flag("deepspeed.quantized_weights"))
    run.derive("fsdp.zeropp.quantized_weights", "true", "deepspeed.quantized_weights");
  if (facts.flag("deepspeed.quantized_gradients"))
    run.derive("fsdp.zeropp.quantized_gradients", "true", "deepspeed.quantized_gradients");
  set_offload(run, "fsdp", 3);
}

}  // namespace

// Without a section for ZeRO the stage is 0 (runtime/zero/config.py). reduce_bucket_size is 5e8
// elements unless stated. communication_data_type sets the bytes of an element on the wire.
void interpret_deepspeed(Interpreted& run) {
  Facts& facts = run.facts;
  // The first versions of DeepSpeed had `zero_optimization: true`, which means stage 1.
  if (facts.has("deepspeed.old_stage") && !facts.has("zero.level"))
    run.derive("zero.level", *facts.text("deepspeed.old_stage"), "deepspeed.old_stage");
  const auto level = static_cast<int>(facts.count("zero.level").value_or(0));
  if (!facts.has("recipe")) facts.replace("recipe", {"deepspeed", {}, ""});
  const HalfPrecision half = half_precision(facts);
  set_precision(run, half);
  double element = half.fp16 || half.bf16 ? 2 : 4;
  const std::string wire = facts.word("deepspeed.communication", "");
  if (wire == "fp32") element = 4;
  const double bucket = facts.number("deepspeed.reduce_bucket").value_or(5e8);
  if (level >= 3) return set_stage_3(run);
  // DeepSpeed's own all-reduce runs after backward, bucket by bucket (runtime/engine.py,
  // buffered_allreduce_fallback).
  if (level == 0) {
    run.derive("strategy", "ddp", "zero.level");
    run.derive("ddp.bucket_size", bytes_of(bucket, element), "deepspeed.reduce_bucket");
    run.derive("ddp.first_bucket_size", bytes_of(bucket, element), "deepspeed.reduce_bucket");
    run.derive("ddp.overlap", "false", "zero.level");
    if (wire == "fp32") run.derive("ddp.gradient_element_size", "4 B", "deepspeed.communication");
    return;
  }
  run.derive("strategy", "zero", "zero.level");
  run.derive("zero.stage", std::to_string(level), "zero.level");
  run.derive("zero.bucket_size", bytes_of(bucket, element), "deepspeed.reduce_bucket");
  run.derive("zero.overlap", facts.flag("deepspeed.overlap") ? "true" : "false",
             "deepspeed.overlap");
  // With `reduce_scatter: false`, every rank gets the sum of whole buckets.
  if (!facts.flag("deepspeed.reduce_scatter", true)) {
    run.derive("zero.reduction", "all-reduce", "deepspeed.reduce_scatter");
    run.derive("zero.partition", "elements", "deepspeed.reduce_scatter");
  }
  if (wire == "fp32") run.derive("zero.gradient_element_size", "4 B", "deepspeed.communication");
  set_offload(run, "zero", level);
}

}  // namespace lockstep
