// Interprets the arguments of Megatron-LM and Megatron-DeepSpeed (megatron/training/arguments.py):
// for example the model family, the optimizer, recomputation and pipelines. Arguments come from a
// launch script or a test recipe; their names have underscores here.
//
//   --swiglu with --num-experts -> mixtral, without -> llama, neither -> megatron-gpt, BERT -> bert
//   --bf16                      -> master-bf16-fp32-gradients
//   --grad-reduce-in-bf16       -> master-bf16
//   --use-distributed-optimizer -> zero: {stage: 1}; without it ddp; --use-torch-fsdp2 -> fsdp
//   --recompute-granularity     -> full: blocks, selective: attention
//   --num-layers-per-virtual-pipeline-stage N -> chunks = layers / stages / N, schedule interleaved
//   --cp-comm-type              -> p2p: ring, a2a: all-to-all, all_gather: gather
#include <fmt/format.h>

#include <algorithm>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

class Megatron {
 public:
  explicit Megatron(Interpreted& run) : run_(run), facts_(run.facts) {}

  void interpret() {
    facts_.replace("recipe", {"megatron", {}, ""});
    model();
    low_precision();
    precision();
    batch();
    recomputation();
    attention();
    pipeline();
    if (facts_.count("tensor").value_or(1) > 1)
      run_.derive("sequence_parallel", facts_.flag("megatron.sequence_parallel") ? "true" : "false",
                  "megatron.sequence_parallel");
    exchanges();
    strategy();
  }

 private:
  // Marks the key of a fact as approximated or refused, with a reason.
  void approximate(const std::string& fact, const std::string& reason) {
    const Fact& source = *facts_.find(fact);
    facts_.replace("approximated." + fact, {reason, source.where, source.key});
  }

  void refuse(const std::string& fact, const std::string& reason) {
    const Fact& source = *facts_.find(fact);
    facts_.replace("refused." + fact, {reason, source.where, source.key});
  }

  // Derives the fact `name` if the file states the fact `from`.
  void derive_if(const std::string& name, const std::string& from) {
    if (facts_.has(from)) run_.derive(name, *facts_.text(from), from);
  }

  // --position-embedding-type rope, or the older --use-rotary-position-embeddings.
  bool is_rotary() {
    return facts_.word("megatron.positions", "") == "rope" || facts_.flag("megatron.rotary");
  }

  // States the model's family: BERT if the tokenizer is BERT's, a Llama-like model if it has
  // SwiGLU, otherwise a GPT.
  void model() {
    if (facts_.has("megatron.t5"))
      refuse("megatron.t5",
             "an encoder with a decoder (T5) is not modelled from Megatron's arguments");
    if (facts_.has("megatron.encoder_layers")) derive_if("model.layers", "megatron.encoder_layers");
    if (!facts_.has("sequence")) derive_if("sequence", "megatron.encoder_sequence");
    if (!facts_.has("model.hidden")) return;
    const bool gated = facts_.flag("megatron.swiglu");
    const char* base = facts_.has("megatron.bert")               ? "bert"
                       : facts_.has("megatron.experts") && gated ? "mixtral"
                       : gated                                   ? "llama"
                                                                 : "megatron-gpt";
    facts_.replace("model.base", {base, {}, "its arguments"});
    vocabulary();
    if (facts_.has("megatron.bert")) return;
    if (gated) return decoder(std::string(base) == "mixtral");
    gpt();
  }

  // States the sizes of a Llama-like model. Without --ffn-hidden-size, Megatron's SwiGLU layer has
  // 8/3 of the hidden size, rounded down to a multiple of 64 (arguments.py). If the file has
  // --group-query-attention, --num-query-groups counts only if that switch is on.
  void decoder(bool experts) {
    const bool grouped = facts_.flag("megatron.grouped") || !facts_.has("megatron.grouped");
    if (grouped) derive_if("model.kv_heads", "megatron.groups");
    // Without groups each head has keys and values of its own.
    if (experts && !facts_.has("megatron.groups")) derive_if("model.kv_heads", "model.heads");
    derive_if("model.head_size", "megatron.head_size");
    if (!facts_.has("model.mlp")) {
      const std::int64_t width = *facts_.count("model.hidden") * 8 / 3 / 64 * 64;
      facts_.replace("model.mlp", {std::to_string(width), {}, "default"});
    }
    if (experts) {
      derive_if("model.experts", "megatron.experts");
      derive_if("model.top", "megatron.top");
      derive_if("model.mlp", "megatron.expert_mlp");
      return;
    }
    run_.derive("model.tied", facts_.flag("megatron.untied") ? "0" : "1", "megatron.untied");
    if (facts_.flag("megatron.biases")) run_.derive("model.biases", "1", "megatron.biases");
    if (facts_.flag("megatron.head_norm"))
      run_.derive("model.head_norm", "1", "megatron.head_norm");
    if (!is_rotary() && facts_.has("megatron.positions"))
      approximate("megatron.positions", "positions are priced as rotary ones");
  }

  // States the sizes of a GPT. By default dropouts are 0.1, embeddings are tied and positions are
  // learned (arguments.py).
  void gpt() {
    if (facts_.has("megatron.experts"))
      refuse("megatron.experts", "experts without SwiGLU are not modelled");
    if (facts_.has("megatron.groups") &&
        facts_.count("megatron.groups") != facts_.count("model.heads"))
      approximate(
          "megatron.groups",
          "grouped keys and values are priced as one for each head: an upper bound of the step");
    const bool drops = facts_.number("megatron.hidden_dropout").value_or(0.1) > 0 ||
                       facts_.number("megatron.attention_dropout").value_or(0.1) > 0;
    run_.derive("model.dropout", drops ? "1" : "0", "megatron.hidden_dropout");
    if (facts_.flag("megatron.untied")) run_.derive("model.tied", "0", "megatron.untied");
    if (facts_.flag("megatron.no_biases")) run_.derive("model.biases", "0", "megatron.no_biases");
    if (is_rotary()) {
      run_.derive("model.positions", "0",
                  facts_.has("megatron.positions") ? "megatron.positions" : "megatron.rotary");
      run_.notes.push_back("rotary positions of a GPT are not priced: a lower bound of the step");
    }
    if (facts_.word("megatron.positions", "") == "alibi") {
      run_.derive("model.alibi", "1", "megatron.positions");
      run_.derive("model.positions", "0", "megatron.positions");
    }
  }

  // Transformer Engine's recipes (arguments.py: --fp8-recipe, `delayed` by default). Its
  // `tensorwise` is current scaling.
  void low_precision() {
    if (!facts_.has("megatron.fp8")) return;
    const std::string recipe = facts_.word("megatron.fp8_recipe", "delayed");
    run_.derive("low_precision",
                recipe == "tensorwise"  ? "fp8-current"
                : recipe == "mxfp8"     ? "mxfp8"
                : recipe == "blockwise" ? "fp8-blockwise"
                                        : "fp8-delayed",
                "megatron.fp8");
  }

  // Megatron pads the vocabulary to a multiple of --make-vocab-size-divisible-by (128) and of the
  // tensor ranks (training/tokenizer).
  void vocabulary() {
    if (facts_.has("megatron.padded_vocabulary"))
      return derive_if("model.vocabulary", "megatron.padded_vocabulary");
    if (facts_.has("megatron.bert"))
      facts_.set_default("megatron.vocabulary", "30522", "BERT's tokens");
    const auto size = facts_.count("megatron.vocabulary");
    if (!size || *size <= 0) {
      run_.notes.push_back(
          "the vocabulary is in the tokenizer's files: the model's own is taken (--set "
          "model_parameters.vocabulary=N says another)");
      return;
    }
    const std::int64_t multiple = facts_.count("megatron.vocabulary_divisor").value_or(128) *
                                  std::max<std::int64_t>(1, facts_.count("tensor").value_or(1));
    run_.derive("model.vocabulary", std::to_string((*size + multiple - 1) / multiple * multiple),
                "megatron.vocabulary");
  }

  // With --bf16 gradients are accumulated and reduced in fp32 unless --grad-reduce-in-bf16. Both
  // modes have fp32 master weights, as pure-fp16 has.
  void precision() {
    if (facts_.flag("megatron.fp16")) return run_.derive("precision", "pure-fp16", "megatron.fp16");
    if (!facts_.flag("megatron.bf16")) {
      facts_.set_default("precision", "torch-fp32", "Megatron without --bf16 and --fp16");
      return;
    }
    const bool narrow = facts_.flag("megatron.narrow_reduction");
    run_.derive("precision", narrow ? "master-bf16" : "master-bf16-fp32-gradients",
                narrow ? "megatron.narrow_reduction" : "megatron.bf16");
  }

  // States the schedule of batch sizes, the run's length and the optimizer. `--optimizer adam` has
  // decoupled decay, so it is AdamW.
  void batch() {
    // The schedule "0:384 200B:768", for example, ends with a batch of 768, which is simulated.
    if (facts_.has("megatron.batch_schedule")) {
      const std::string text = *facts_.text("megatron.batch_schedule");
      const std::size_t colon = text.rfind(':');
      if (colon != std::string::npos)
        run_.derive("global", text.substr(colon + 1), "megatron.batch_schedule");
      approximate("megatron.batch_schedule", "the last batch of the schedule is priced");
    }
    if (facts_.has("megatron.samples")) derive_if("samples", "megatron.samples");
    if (facts_.word("optimizer", "adam") == "adam" && !facts_.has("optimizer")) return;
    if (facts_.word("optimizer", "") == "adam")
      run_.derive("optimizer", "adamw_fused", "optimizer");
    if (facts_.word("optimizer", "") == "sgd") derive_if("momentum", "megatron.momentum");
  }

  // `selective` recomputes core attention. The older options (--checkpoint-activations) recompute
  // whole blocks.
  void recomputation() {
    const std::string kind = facts_.word("megatron.recompute", "");
    const bool old = facts_.flag("megatron.old_recompute") || facts_.has("megatron.old_method");
    if (kind == "full") {
      run_.derive("recompute", "blocks", "megatron.recompute");
      if (facts_.word("megatron.method", "uniform") == "block" &&
          facts_.has("megatron.layers_recomputed"))
        approximate("megatron.layers_recomputed",
                    "recomputation of some blocks is priced as that of all");
    } else if (kind == "selective") {
      run_.derive("recompute", "attention", "megatron.recompute");
      const std::string modules = facts_.word("megatron.modules", "core_attn");
      if (modules != "core_attn")
        approximate("megatron.modules",
                    "selective recomputation is priced as that of attention alone");
    } else if (old) {
      run_.derive(
          "recompute", "blocks",
          facts_.has("megatron.old_recompute") ? "megatron.old_recompute" : "megatron.old_method");
    }
  }

  // Reads --attention-backend, or, without it, --use-flash-attn. Scripts with the older
  // recomputation options are from before FlashAttention.
  void attention() {
    if (facts_.has("megatron.backend"))
      return run_.derive("attention", *facts_.text("megatron.backend"), "megatron.backend");
    if (facts_.flag("megatron.flash")) return run_.derive("attention", "fused", "megatron.flash");
    const bool old = facts_.has("megatron.old_recompute") || facts_.has("megatron.old_method");
    if (old) facts_.set_default("attention", "plain", "Megatron before FlashAttention");
  }

  // States the number of virtual stages, which the arguments state directly or by the layers of
  // each. The schedule is interleaved with virtual stages, and 1F1B without.
  void pipeline() {
    const std::int64_t stages = facts_.count("stages").value_or(1);
    if (stages <= 1) return;
    if (const auto layers = facts_.count("megatron.virtual_layers"); layers && *layers > 0) {
      const std::int64_t all = facts_.count("model.layers").value_or(0);
      if (all > 0 && all % (stages * *layers) == 0)
        run_.derive("chunks", std::to_string(all / stages / *layers), "megatron.virtual_layers");
    }
    const bool chunked = facts_.count("chunks").value_or(1) > 1;
    facts_.replace("schedule", {chunked ? "interleaved" : "1f1b", {}, ""});
  }

  // States the collectives among context-parallel ranks, and the exchange of tokens among experts
  // (--moe-token-dispatcher-type, allgather by default).
  void exchanges() {
    const std::string context = facts_.word("megatron.context_exchange", "p2p");
    if (facts_.count("context").value_or(1) > 1)
      run_.derive("context.exchange",
                  context == "a2a"          ? "all-to-all"
                  : context == "all_gather" ? "gather"
                                            : "ring",
                  "megatron.context_exchange");
    if (facts_.count("expert").value_or(1) <= 1) return;
    const std::string dispatcher = facts_.word("megatron.dispatcher", "allgather");
    run_.derive("expert.dispatch", dispatcher == "allgather" ? "gather" : "all-to-all",
                "megatron.dispatcher");
  }

  // The data-parallel strategy. Without a distributed optimizer the gradients are all-reduced after
  // backward, unless --overlap-grad-reduce overlaps them. In Megatron's own FSDP,
  // --data-parallel-sharding-strategy chooses which state is sharded.
  void strategy() {
    const std::string sharding = facts_.word("megatron.sharding", "no_shard");
    if (facts_.flag("megatron.torch_fsdp")) {
      facts_.replace("fsdp.version", {"2", {}, ""});
      run_.derive("fsdp.raw_sharding", "full_shard", "megatron.torch_fsdp");
      return shard();
    }
    if (facts_.flag("megatron.own_fsdp") && sharding == "optim_grads_params") {
      facts_.replace("fsdp.version", {"2", {}, ""});
      run_.derive("fsdp.raw_sharding", "full_shard", "megatron.sharding");
      return shard();
    }
    if (facts_.flag("megatron.deepspeed") || facts_.has("zero.level")) return deepspeed();
    if (!facts_.flag("megatron.distributed_optimizer")) {
      run_.derive("strategy", "ddp", "megatron.distributed_optimizer");
      run_.derive("ddp.overlap", facts_.flag("megatron.overlap_gradients") ? "true" : "false",
                  "megatron.overlap_gradients");
      return;
    }
    run_.derive("strategy", "zero", "megatron.distributed_optimizer");
    const bool both = facts_.flag("megatron.own_fsdp") && sharding == "optim_grads";
    run_.derive("zero.stage", both ? "2" : "1", "megatron.distributed_optimizer");
    run_.derive("zero.overlap", facts_.flag("megatron.overlap_gradients") ? "true" : "false",
                "megatron.overlap_gradients");
    if (facts_.flag("megatron.overlap_parameters"))
      run_.derive("zero.gather", "with-forward", "megatron.overlap_parameters");
    if (facts_.flag("megatron.offload")) {
      run_.derive("zero.offload.optimizer", "host", "megatron.offload");
      if (facts_.has("offload.fraction"))
        run_.derive("zero.offload.fraction", *facts_.text("offload.fraction"), "offload.fraction");
    }
    instances();
  }

  // States the precision of FSDP. The shards are fp32 master parameters, as in PyTorch's mixed
  // precision.
  void shard() {
    if (facts_.flag("megatron.bf16")) {
      run_.derive("precision", "amp-bf16", "megatron.bf16");
      if (!facts_.flag("megatron.narrow_reduction"))
        facts_.replace("fsdp.reduce_element_size", {"4 B", {}, ""});
    }
    interpret_fsdp(run_);
  }

  // --num-distributed-optimizer-instances: several copies of the sharded state, each over a part of
  // the data-parallel ranks. The size of a part follows from the number of GPUs.
  void instances() {
    const std::int64_t copies = facts_.count("megatron.instances").value_or(1);
    if (copies <= 1) return;
    const auto gpus = facts_.count("gpus"), per_node = facts_.count("gpus_per_node");
    if (!gpus && !per_node) {
      run_.notes.push_back(
          fmt::format("{} instances of the distributed optimizer: say zero.shard_group by --set "
                      "(data-parallel ranks / {})",
                      copies, copies));
      return;
    }
    std::int64_t ranks = gpus.value_or(per_node.value_or(1) * facts_.count("nodes").value_or(1));
    for (const char* axis : {"tensor", "context", "stages"})
      ranks /= std::max<std::int64_t>(1, facts_.count(axis).value_or(1));
    run_.derive("zero.shard_group", std::to_string(ranks / copies), "megatron.instances");
  }

  // Megatron-DeepSpeed uses DeepSpeed's engine with Megatron's layers.
  void deepspeed() {
    const std::string precision = facts_.word("precision", "");
    const std::string recipe = facts_.word("recipe", "megatron");
    if (facts_.flag("megatron.bf16")) facts_.replace("mixed", {"bf16", {}, ""});
    if (facts_.flag("megatron.fp16")) facts_.replace("mixed", {"fp16", {}, ""});
    interpret_deepspeed(run_);
    facts_.replace("recipe", {recipe, {}, ""});
  }

  Interpreted& run_;
  Facts& facts_;
};

}  // namespace

void interpret_megatron(Interpreted& run) {
  Megatron(run).interpret();
}

namespace {

// The tokenizer's files show whether the model is BERT (WordPiece: vocab.txt) or has GPT-2's
// vocabulary (vocab.json, merges.txt).
void read_tokenizer(const Node& arguments, Facts& facts) {
  const auto file = arguments.find("vocab_file");
  if (file && file->scalar().ends_with("vocab.txt"))
    facts.set("megatron.bert", {"true", file->where(), "vocab_file"});
  const bool merges = arguments.find("merge_file").has_value();
  if (merges && !arguments.find("vocab_size") && !arguments.find("padded_vocab_size"))
    facts.set_default("megatron.vocabulary", "50257", "GPT-2's tokens, as merge_file has them");
}

}  // namespace

Node megatron_tree(const Node& root, Facts& facts) {
  const auto arguments = root.find("MODEL_ARGS");
  if (!arguments) {
    read_tokenizer(root, facts);
    return root;
  }
  // --micro-batch-size becomes micro_batch_size, as options_of() does for scripts.
  Node map = arguments->empty_map();
  for (const auto& [key, value] : arguments->entries()) {
    std::string name = key;
    while (name.starts_with('-')) name.erase(0, 1);
    std::replace(name.begin(), name.end(), '-', '_');
    map = map.with(name, value, arguments->key_location(key));
  }
  read_tokenizer(map, facts);
  return map;
}

}  // namespace lockstep
