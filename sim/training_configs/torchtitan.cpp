// Interprets configs of torchtitan: TOML until February 2026 (config/job_config.py), JSON of
// `Trainer.Config` since then (config/configs.py). Finds for example recomputation, precision,
// pipelines, and a model's sizes from its layers.
//
//   training.local_batch_size, seq_len        -> batch.micro, input.sequence
//   parallelism.data_parallel_shard_degree    -> fsdp: {version: 2}; 1 with replicas -> ddp
//   activation_checkpoint.mode                -> none, full: blocks, selective: operators
//   parallelism.pipeline_parallel_schedule    -> 1f1b, gpipe, interleaved, looped-bfs, zb1p, ...
//   JSON: num_tokens_per_microbatch_per_dp_rank / max_context_length -> batch.micro
#include <fmt/format.h>

#include <algorithm>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// The scenario's name of a schedule that has PyTorch's name
// (torch/distributed/pipelining/schedules.py); "" for unknown names.
std::string schedule_word(const std::string& text) {
  const std::string word = lower_case(text);
  if (word == "1f1b" || word == "gpipe") return word;
  if (word == "interleaved1f1b") return "interleaved";
  if (word == "loopedbfs") return "looped-bfs";
  if (word == "interleavedzerobubble") return "zb1p";
  if (word == "zbvzerobubble") return "zbv";
  if (word == "dualpipev") return "dualpipe-v";
  return "";
}

// States the pipeline's schedule, 1F1B by default. A schedule with several stages per rank has two
// by default.
void set_schedule(Interpreted& run) {
  Facts& facts = run.facts;
  if (facts.count("stages").value_or(1) <= 1) return facts.erase("schedule");
  facts.set_default("schedule", "1F1B", "torchtitan");
  const Fact given = *facts.find("schedule");
  const std::string word = schedule_word(given.value);
  if (word.empty()) {
    throw ConfigError(Diagnostic{
        given.where, given.key, fmt::format("the schedule {} is not known", in_quotes(given.value)),
        "1F1B, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, "
        "ZBVZeroBubble, DualPipeV"});
  }
  facts.replace("schedule", {word, given.where, given.key});
  const bool chunked = word == "interleaved" || word == "looped-bfs";
  if (chunked) facts.set_default("chunks", "2", "torchtitan's stages for each rank");
}

// activation_checkpoint. `selective` with option `op` keeps activations that are expensive to
// recompute; with a number N it recomputes every Nth block.
void set_recomputation(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string mode = facts.word("titan.recompute", "selective");
  const std::string from = "titan.recompute";
  if (mode == "none") return run.derive("recompute", "none", from);
  if (mode == "full") return run.derive("recompute", "blocks", from);
  if (mode == "memory_budget") {
    run.notes.push_back(
        "recomputation by a memory budget is priced as selective recomputation of operators");
    return run.derive("recompute", "operators", from);
  }
  if (!facts.has(from)) facts.set_default(from, "selective", "torchtitan");
  const std::string option = facts.word("titan.selective", "op");
  if (option == "op") return run.derive("recompute", "operators", from);
  run.derive("recompute", "blocks", from);
  if (option != "1")
    run.notes.push_back(
        fmt::format("recomputation of every {}th block is priced as that of all: an upper bound "
                    "of the step, a lower bound of memory",
                    option));
}

// States the precision. training.dtype is the type of the weights (fp32 by default),
// mixed_precision_param the type of the computation under FSDP (bf16 by default).
void set_numbers(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string weights = facts.word("titan.weights", "float32");
  const std::string mixed = facts.word("titan.mixed", "bfloat16");
  if (weights == "bfloat16") return run.derive("precision", "pure-bf16", "titan.weights");
  if (mixed == "bfloat16") return run.derive("precision", "amp-bf16", "titan.mixed");
  run.derive("precision", mixed == "float16" ? "amp-fp16" : "torch-fp32", "titan.mixed");
}

// States strategy and sharding. `fsdp_reshard_after_forward: default` reshards unless there are
// pipeline stages. In torchtitan each block, the embedding and the head are separate FSDP units.
void set_sharding(Interpreted& run) {
  Facts& facts = run.facts;
  const std::int64_t replicate = facts.count("dp.replicate").value_or(1);
  const std::int64_t shard = facts.count("dp.shard").value_or(-1);
  // Parameters are sharded over data-parallel and context-parallel ranks together.
  const bool several = facts.count("context").value_or(1) > 1;
  if (shard == 1 && replicate > 1 && !several) return run.derive("strategy", "ddp", "dp.replicate");
  const std::string reshard = facts.word("titan.reshard", "default");
  const bool pipelined = facts.count("stages").value_or(1) > 1;
  const bool keeps = reshard == "never" || (reshard == "default" && pipelined);
  facts.replace("fsdp.version", {"2", {}, ""});
  run.derive("fsdp.raw_sharding", keeps ? "shard_grad_op" : "full_shard", "titan.reshard");
  interpret_fsdp(run);
  facts.replace("fsdp.wrap", {"{policy: block_and_ends}", {}, ""});
}

// With a pipeline, a rank's samples are split into micro-batches, of one sample by default. The
// file states their size (pipeline_parallel_microbatch_size) or, in older versions, their number.
void split_for_pipeline(Interpreted& run) {
  Facts& facts = run.facts;
  const auto local = facts.count("micro");
  if (!local || facts.count("stages").value_or(1) <= 1) return;
  std::int64_t micro = facts.count("titan.pipeline_micro").value_or(1);
  if (const auto parts = facts.count("titan.pipeline_micros"); parts && *parts > 0)
    micro = std::max<std::int64_t>(1, *local / *parts);
  if (*local % micro != 0) return;
  run.derive("accumulation", std::to_string(*local / micro), "micro");
  run.derive("micro", std::to_string(micro), "micro");
}

// A family and a flavor, for example llama3 and 8B, together form a public model's name.
void name_model(Interpreted& run) {
  Facts& facts = run.facts;
  const auto name = facts.text("titan.model"), flavor = facts.text("titan.flavor");
  if (!name || facts.has("model")) return;
  const std::string family = lower_case(*name);
  if (family == "flux") {
    const Fact& fact = *facts.peek("titan.model");
    facts.replace("refused.model", {"a diffusion model is not modelled", fact.where, fact.key});
  }
  if (flavor) run.derive("model", *name + "-" + *flavor, "titan.flavor");
}

// Reads compilation, fp8, fault tolerance and CUDA graphs. Options that are on in the file but
// modelled as off are marked as approximated.
void read_extras(Interpreted& run) {
  Facts& facts = run.facts;
  const auto approximate = [&](const char* fact, const char* reason) {
    const Fact& source = *facts.find(fact);
    facts.replace(std::string("approximated.") + fact, {reason, source.where, source.key});
  };
  // compile.components: the model, the loss, or both.
  const bool model = facts.word("titan.components", "model").find("model") != std::string::npos;
  if (facts.flag("titan.compiled") && model) run.derive("compile", "blocks", "titan.compiled");
  if (facts.flag("titan.compiled") && !model)
    approximate("titan.compiled", "a compiled loss is priced without compilation");
  // model.converters: ["float8"] is torchao's fp8, ["mx"] its microscaled formats.
  const std::string converters = facts.word("titan.converters", "");
  if (converters.find("float8") != std::string::npos) {
    run.derive("low_precision", "fp8-" + facts.word("titan.float8_recipe", "tensorwise"),
               "titan.converters");
    if (facts.flag("titan.float8_gather"))
      run.derive("low_precision.gather", "true", "titan.float8_gather");
  } else if (converters.find("mx") != std::string::npos) {
    run.derive("low_precision", "mxfp8", "titan.converters");
  }
  if (facts.flag("titan.fault_tolerance") && facts.has("titan.semi_sync"))
    approximate("titan.semi_sync",
                "the number of replicas is given at launch: one replica is priced, without its "
                "outer steps");
  // Only the JSON of 2026 has disable_cuda_graphs.
  if (facts.has("titan.no_graphs")) {
    if (!facts.flag("titan.no_graphs")) run.derive("cuda_graphs", "true", "titan.no_graphs");
    run.notes.push_back(
        "float8 leaves no trace in this file: if it is on, the step here is an upper bound");
  }
  if (facts.has("titan.custom")) {
    run.notes.push_back(
        "experimental.custom_args_module names Python code that may set more degrees: it is not "
        "read");
  }
}

// Converts the tokens of a micro-batch and of a step, which the JSON of 2026 states, to samples.
void read_tokens(Interpreted& run) {
  Facts& facts = run.facts;
  const auto tokens = facts.count("titan.tokens"), sequence = facts.count("sequence");
  if (!tokens || !sequence || *sequence <= 0) return;
  run.derive("micro", std::to_string(*tokens / *sequence), "titan.tokens");
  const std::int64_t stages = facts.count("stages").value_or(1);
  const std::int64_t parts = stages > 1 ? facts.count("titan.pipeline_micros").value_or(1) : 1;
  if (const auto step = facts.count("titan.step_tokens"); step && *step > 0) {
    run.derive("global", std::to_string(*step / *sequence), "titan.step_tokens");
  } else if (parts > 1) {
    run.derive("accumulation", std::to_string(parts), "titan.pipeline_micros");
  }
  facts.erase("titan.pipeline_micros");
}

}  // namespace

void interpret_torchtitan(Interpreted& run) {
  Facts& facts = run.facts;
  facts.replace("recipe", {"torchtitan", {}, ""});
  name_model(run);
  read_tokens(run);
  if (!facts.has("titan.tokens")) split_for_pipeline(run);
  set_schedule(run);
  set_recomputation(run);
  set_numbers(run);
  set_sharding(run);
  read_extras(run);
  facts.set_default("clip", "1.0", "torchtitan");
  if (facts.has("titan.optimizer"))
    run.derive("optimizer", *facts.text("titan.optimizer"), "titan.optimizer");
  if (facts.has("titan.decay"))
    run.derive("weight_decay", *facts.text("titan.decay"), "titan.decay");
  const std::string implementation =
      facts.word("titan.implementation", facts.word("titan.fused", ""));
  if (implementation.starts_with("fused"))
    run.derive("optimizer.implementation", "fused", "titan.implementation");
  if (implementation == "foreach" || implementation == "for-loop")
    run.derive("optimizer.implementation", implementation, "titan.implementation");
  if (implementation == "fused_opt_states_bf16")
    run.notes.push_back("bf16 optimizer states are priced in fp32: an upper bound of memory");
}

namespace {

// The node at a path; nothing if it is absent or null.
std::optional<Node> below(const Node& node, std::initializer_list<const char*> path) {
  std::optional<Node> here = node;
  for (const char* part : path) {
    here = here->find(part);
    if (!here || here->kind() == Node::Kind::null) return std::nullopt;
  }
  return here;
}

// Reads a model's sizes from its layers, which torchtitan's JSON lists one by one. All layers are
// assumed to equal the last one; only DeepSeek's dense first layers are counted separately.
class Sizes {
 public:
  Sizes(const Node& model, Facts& facts) : model_(model), facts_(facts) {}

  void read() {
    const auto layers = model_.find("layers");
    if (!layers || layers->elements().empty()) return;
    const Node last = layers->elements().back();
    set("layers", std::to_string(layers->elements().size()), *layers);
    copy("hidden", model_, {"dim"});
    copy("vocabulary", model_, {"vocab_size"});
    copy("heads", last, {"attention", "n_heads"});
    // kv_lora_rank marks multi-head latent attention (DeepSeek-V3).
    if (below(last, {"attention", "kv_lora_rank"})) return latent(layers->elements());
    const auto window = below(last, {"attention", "inner_attention", "window_size"});
    if (window) return unknown("attention in windows of tokens");
    copy("kv_heads", last, {"attention", "qkv_linear", "n_kv_heads"});
    copy("head_size", last, {"attention", "qkv_linear", "head_dim"});
    if (below(last, {"moe"})) return experts(last);
    base("llama");
    copy("mlp", last, {"feed_forward", "w1", "out_features"});
    if (below(last, {"attention", "qk_norm"})) set("head_norm", "1", last);
    const auto tied = below(model_, {"enable_weight_tying"});
    if (tied && flag_in(tied->scalar()).value_or(false)) set("tied", "1", *tied);
    const auto bias = below(last, {"attention", "qkv_linear", "wqkv", "bias"});
    if (bias && flag_in(bias->scalar()).value_or(false)) set("biases", "1", *bias);
  }

 private:
  void set(const char* name, const std::string& value, const Node& node) {
    facts_.set(std::string("model.") + name, {value, node.where(), "model_spec.model"});
  }
  void base(const char* name) { set("base", name, model_); }
  void copy(const char* name, const Node& from, std::initializer_list<const char*> path) {
    if (const auto node = below(from, path)) set(name, node->scalar(), *node);
  }

  // Removes the sizes of a model for which Lockstep has no family. The fact `model` gets an unknown
  // name, so that the import asks for --model.
  void unknown(const std::string& reason) {
    for (const std::string& name : facts_.names("model.")) facts_.erase(name);
    facts_.set("model", {"a model with " + reason, model_.where(), "model_spec.model"});
  }

  // Reads a mixture of experts with grouped attention (Qwen3).
  void experts(const Node& layer) {
    if (below(layer, {"moe", "shared_experts"}))
      return unknown("shared experts beside grouped attention");
    base("qwen3-moe");
    copy("mlp", layer, {"moe", "routed_experts", "inner_experts", "hidden_dim"});
    copy("experts", layer, {"moe", "num_experts"});
    copy("top", layer, {"moe", "router", "top_k"});
  }

  // Reads DeepSeek-V3: latent attention, first dense layers, then layers with experts.
  void latent(const std::vector<Node>& layers) {
    const Node& last = layers.back();
    const auto rank = below(last, {"attention", "q_lora_rank"});
    if (!rank || rank->scalar() == "0")
      return unknown("latent attention without a rank of the queries");
    base("deepseek-v3");
    const auto dense = std::count_if(layers.begin(), layers.end(),
                                     [](const Node& layer) { return !below(layer, {"moe"}); });
    set("dense", std::to_string(dense), last);
    copy("query_rank", last, {"attention", "q_lora_rank"});
    copy("key_rank", last, {"attention", "kv_lora_rank"});
    copy("head_size", last, {"attention", "qk_nope_head_dim"});
    copy("rotary_size", last, {"attention", "qk_rope_head_dim"});
    copy("mlp", layers.front(), {"feed_forward", "w1", "out_features"});
    copy("expert_mlp", last, {"moe", "routed_experts", "inner_experts", "hidden_dim"});
    copy("experts", last, {"moe", "num_experts"});
    copy("top", last, {"moe", "router", "top_k"});
  }

  const Node& model_;
  Facts& facts_;
};

}  // namespace

Node with_torchtitan_sizes(const Node& root, Facts& facts) {
  const auto model = below(root, {"model_spec", "model"});
  if (model) Sizes(*model, facts).read();
  if (const auto name = below(root, {"model_spec", "name"}))
    facts.set("titan.model", {name->scalar(), name->where(), "model_spec.name"});
  const auto recompute = root.find("activation_checkpoint");
  if (!recompute) return root;
  // Each mode of activation_checkpoint has different fields; null means no recomputation.
  const bool none = recompute->kind() != Node::Kind::map;
  const char* mode = none                                                   ? "none"
                     : recompute->find("force_recompute_mm_shapes_by_fqns") ? "selective"
                     : recompute->find("memory_budget")                     ? "memory_budget"
                                                                            : "full";
  facts.set("titan.recompute", {mode, recompute->where(), "activation_checkpoint"});
  return root;
}

}  // namespace lockstep
