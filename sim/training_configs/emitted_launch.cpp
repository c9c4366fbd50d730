// Writes torchtitan's TOML (config/job_config.py), Megatron-LM's launch script
// (megatron/training/arguments.py), and job files for Slurm and SkyPilot. The first two are the
// inverse of torchtitan.cpp and megatron.cpp. The time limit of a job file is the upper end of the
// run's predicted interval.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/data.hpp"
#include "core/describe_emit.hpp"
#include "training_configs/emit_plan.hpp"
#include "workload/model_file.hpp"

namespace lockstep {
namespace {

// torchtitan's name and flavor of a shipped model. Refuses models with changed parameters, for
// which torchtitan has no flavor.
std::pair<std::string, std::string> titan_model(const EmitPlan& plan) {
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

// torchtitan's name of the schedule, which follows PyTorch's classes
// (torch/distributed/pipelining/schedules.py).
std::string titan_schedule(const EmitPlan& plan) {
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
      plan.refuse("torchtitan", "schedule: " + enum_name(plan.parallel.pipeline.schedule));
  }
}

}  // namespace

// The degrees of data parallelism are written explicitly, so that the file determines the number of
// GPUs: replicate x shard x tensor x context x pipeline.
EmittedFile torchtitan_file(EmitPlan& plan) {
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
  // With `fsdp_reshard_after_forward: never`, gathered parameters stay until backward.
  const bool keeps = fsdp && (fsdp->sharding == Sharding::shard_grad_op ||
                              fsdp->sharding == Sharding::hybrid_shard_zero2);
  const bool staged = parallel.pipeline.stages > 1;
  // With a pipeline, local_batch_size is the samples of a rank between two optimizer steps; without
  // one, it is the samples of one micro-batch.
  const std::int64_t local =
      staged ? plan.point.micro_batch * plan.accumulation() : plan.point.micro_batch;
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::string text = fmt::format(
      "[model]\nname = \"{}\"\nflavor = \"{}\"\n\n[optimizer]\nname = \"{}\"\nimplementation = "
      "\"{}\"\nweight_decay = {}\n\n",
      name, flavor, plan.optimizer_class(), enum_name(plan.scenario.optimizer.implementation),
      plan.scenario.optimizer.weight_decay);
  text += fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nmax_norm = "
      "{}\nenable_cpu_offload = {}\n",
      local, plan.point.global_batch, plan.sequence(), plan.scenario.gradient_clipping,
      flag(fsdp && fsdp->cpu_offload));
  if (plan.scenario.dataset.steps > 0)
    text += fmt::format("steps = {}\n", static_cast<std::int64_t>(plan.scenario.dataset.steps));
  // torchtitan's default is fp32 weights with bf16 computation, which is amp-bf16.
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
  plan.must_be_eager("torchtitan", Compile::blocks, false);
  const StepOptions& step = plan.point.step_options;
  if (step.compile == Compile::blocks) text += "\n[compile]\nenable = true\n";
  // model.converters belongs to the section [model], which is already in the text, so it is
  // inserted there.
  if (step.low_precision.is_used()) {
    const bool rows = step.low_precision.recipe == LowPrecisionRecipe::fp8_rowwise;
    text.insert(text.find("\n\n[optimizer]"), "\nconverters = [\"float8\"]");
    text += fmt::format("\n[float8]\nrecipe_name = \"{}\"\nenable_fsdp_float8_all_gather = {}\n",
                        rows ? "rowwise" : "tensorwise", flag(step.low_precision.gather));
  }
  plan.notes.emplace_back("torchtitan until February 2026 reads TOML");
  return {"train.toml", text, plan.notes};
}

namespace {

// The model's parameters by name, from the scenario or by default. An expression may use parameters
// before it.
std::map<std::string, std::int64_t> sizes_of(const EmitPlan& plan) {
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

// Collects the options of a command line.
class Options {
 public:
  template <class Value>
  void add(const char* name, const Value& value) {
    list_.push_back(fmt::format("--{} {}", name, value));
  }
  void flag(const char* name, bool on) {
    if (on) list_.push_back(fmt::format("--{}", name));
  }
  std::string lines() const { return fmt::format("{}", fmt::join(list_, "\n  ")); }

 private:
  std::vector<std::string> list_;
};

// Sizes of the network. A model with a parameter `kv_heads` is Llama-like: SwiGLU, RMSNorm, rotary
// positions, and perhaps biases of query, key and value. Any other model is a GPT.
void add_model(const EmitPlan& plan, Options& options) {
  const std::map<std::string, std::int64_t> sizes = sizes_of(plan);
  const auto size = [&](const char* name, std::int64_t absent) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? absent : found->second;
  };
  if (!sizes.contains("layers") || !sizes.contains("hidden") || !sizes.contains("heads"))
    plan.refuse("Megatron-LM", fmt::format("the model {}", plan.scenario.model));
  options.add("num-layers", size("layers", 0));
  options.add("hidden-size", size("hidden", 0));
  options.add("num-attention-heads", size("heads", 0));
  const bool gated = sizes.contains("kv_heads");
  options.add("ffn-hidden-size", size("mlp", 4 * size("hidden", 0)));
  options.flag("disable-bias-linear", gated || size("biases", 1) == 0);
  if (gated) {
    options.flag("group-query-attention", true);
    options.add("num-query-groups", size("kv_heads", 0));
    options.add("kv-channels", size("head_size", size("hidden", 0) / size("heads", 1)));
    options.flag("swiglu", true);
    options.add("normalization", "RMSNorm");
    options.add("position-embedding-type", "rope");
    options.flag("add-qkv-bias", size("biases", 0) != 0);
    options.flag("qk-layernorm", size("head_norm", 0) != 0);
  }
  if (size("dropout", 0) == 0) {
    options.add("hidden-dropout", 0.0);
    options.add("attention-dropout", 0.0);
  }
  // Megatron ties embeddings unless this option is given.
  options.flag("untie-embeddings-and-output-weights", size("tied", gated ? 0 : 1) == 0);
  if (sizes.contains("experts")) {
    options.add("num-experts", size("experts", 0));
    options.add("moe-router-topk", size("top", 1));
  }
  options.add("padded-vocab-size", size("vocabulary", 0));
  options.add("seq-length", plan.sequence());
  options.add("max-position-embeddings", plan.sequence());
}

// Degrees of the mesh, and the exchange of tokens among experts.
void add_mesh(const EmitPlan& plan, Options& options) {
  const ParallelOptions& parallel = plan.parallel;
  options.add("tensor-model-parallel-size", parallel.tensor.size);
  options.flag("sequence-parallel", parallel.tensor.sequence && parallel.tensor.size > 1);
  options.add("pipeline-model-parallel-size", parallel.pipeline.stages);
  const bool chunked = parallel.pipeline.schedule == PipelineSchedule::interleaved;
  if (chunked && parallel.pipeline.stages > 1)
    options.add("num-virtual-stages-per-pipeline-rank",
                std::max<std::int64_t>(2, parallel.pipeline.chunks));
  options.add("context-parallel-size", parallel.context.size);
  if (parallel.expert.size <= 1) return;
  options.add("expert-model-parallel-size", parallel.expert.size);
  if (parallel.expert.tensor > 0)
    options.add("expert-tensor-parallel-size", parallel.expert.tensor);
  const bool gathers = parallel.expert.dispatch == ExpertDispatch::gather;
  options.add("moe-token-dispatcher-type", gathers ? "allgather" : "alltoall");
}

// Megatron's distributed optimizer is ZeRO-1. Without it, Megatron uses DDP or PyTorch's FSDP 2.
void add_data_parallelism(const EmitPlan& plan, Options& options) {
  const ZeroOptions* zero = plan.zero();
  if (zero && zero->stage != 1) plan.refuse("Megatron-LM", "zero: {stage: 2}");
  if (zero && zero->reduction == GradientReduction::all_reduce)
    plan.refuse("Megatron-LM", "reduction: all-reduce");
  if (zero && zero->offload.is_used()) plan.refuse("Megatron-LM", "offload");
  options.flag("use-distributed-optimizer", zero != nullptr);
  options.flag("overlap-grad-reduce", zero ? zero->overlap : plan.ddp() && plan.ddp()->overlap);
  options.flag("overlap-param-gather", zero && zero->gather == ParameterGather::with_forward);
  options.flag("use-torch-fsdp2", plan.fsdp() != nullptr);
}

// Precision, recomputation, kernels and the update.
void add_arithmetic(const EmitPlan& plan, Options& options) {
  options.flag("bf16", plan.is_bf16());
  options.flag("fp16", plan.is_fp16());
  // With --bf16, Megatron reduces gradients in fp32 unless this option is given.
  options.flag("grad-reduce-in-bf16", plan.precision() == Precision::master_bf16);
  if (plan.recomputes()) {
    const bool attention = plan.recompute() == Recompute::attention;
    options.add("recompute-granularity", attention ? "selective" : "full");
    if (!attention) {
      options.add("recompute-method", "uniform");
      options.add("recompute-num-layers", 1);
    }
  }
  const bool fused = plan.scenario.attention == AttentionKind::fused;
  options.add("attention-backend", fused ? "flash" : "unfused");
  options.add("weight-decay", plan.scenario.optimizer.weight_decay);
  options.add("clip-grad", plan.scenario.gradient_clipping);
}

}  // namespace

EmittedFile megatron_file(EmitPlan& plan) {
  plan.must_be_data_parallel("Megatron-LM");
  plan.must_be_eager("Megatron-LM", Compile::none, true);
  Options options;
  add_model(plan, options);
  options.add("micro-batch-size", plan.point.micro_batch);
  options.add("global-batch-size", plan.point.global_batch);
  add_mesh(plan, options);
  add_data_parallelism(plan, options);
  add_arithmetic(plan, options);
  if (plan.scenario.dataset.steps > 0)
    options.add("train-iters", static_cast<std::int64_t>(plan.scenario.dataset.steps));
  plan.notes.emplace_back("data, tokenizer and learning rate are yours to fill in");
  return {"train.sh",
          fmt::format(
              "#!/bin/bash\nset -euo pipefail\nARGS=(\n  {}\n)\n"
              "torchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py \"${{ARGS[@]}}\" \"$@\"\n",
              options.lines(), plan.per_node(), plan.nodes()),
          plan.notes};
}

namespace {

// Slurm's HH:MM:SS, rounded up to minutes.
std::string time_limit(double seconds) {
  const auto minutes = static_cast<std::int64_t>(std::ceil(seconds / 60));
  return fmt::format("{:02}:{:02}:00", minutes / 60, minutes % 60);
}

}  // namespace

// Each node has one task, which starts torchrun for the node's GPUs.
EmittedFile sbatch_file(EmitPlan& plan) {
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

namespace {

// The device's name in SkyPilot's catalogue. It is found by the beginning of Lockstep's name;
// longer beginnings precede shorter ones in the table.
std::string accelerator(const EmitPlan& plan) {
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

}  // namespace

EmittedFile skypilot_file(EmitPlan& plan) {
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

}  // namespace lockstep
