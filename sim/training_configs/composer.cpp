// Interprets configs of LLM Foundry and Composer (composer/trainer/trainer.py): precisions,
// durations, and models.
//
//   max_duration: 4800ba -> steps   286720000sp -> samples   3e12tok -> tokens   1ep: left out
//   precision: amp_bf16, amp_fp16, amp_fp8, fp32 -> precision, low_precision
//   fsdp_config.mixed_precision: PURE, DEFAULT -> bytes of a gradient element on the wire
//   model: {name: mpt_causal_lm, d_model, n_heads, n_layers} -> models/mpt with these sizes
#include <fmt/format.h>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// composer.core.Time: "4800ba" (batches), "1ep", "286720000sp", "3e12tok"; a bare number counts
// epochs. Epochs need the size of the data, which no file states.
void read_duration(Interpreted& run) {
  Facts& facts = run.facts;
  const auto text = facts.text("composer.duration");
  if (!text) return;
  const auto ends = [&](const char* unit) { return text->ends_with(unit); };
  const auto number = [&](std::size_t unit) { return text->substr(0, text->size() - unit); };
  if (ends("ba")) return run.derive("steps", number(2), "composer.duration");
  if (ends("sp")) return run.derive("samples", number(2), "composer.duration");
  if (ends("tok")) return run.derive("tokens", number(3), "composer.duration");
  run.notes.push_back(
      fmt::format("max_duration {}: the length of the data is not in the file, the run's "
                  "length is left out",
                  *text));
}

// States the precision, and for FSDP the type in which gradients are reduced. Composer's default
// precision on GPUs is amp_fp16.
void set_precision(Interpreted& run, bool sharded) {
  Facts& facts = run.facts;
  if (!facts.has("composer.precision"))
    facts.set_default("composer.precision", "amp_fp16", "Composer on GPUs");
  const std::string word = facts.word("composer.precision", "");
  const std::string mixed = facts.word("composer.mixed", "default");
  const bool half = word == "amp_bf16" || word == "amp_fp16" || word == "amp_fp8";
  if (word == "amp_fp8") {
    run.derive("low_precision", "fp8-delayed",
               "composer.precision");  // Transformer Engine's default
  }
  run.derive("precision",
             !half                ? "torch-fp32"
             : word == "amp_fp16" ? "amp-fp16"
                                  : "amp-bf16",
             "composer.precision");
  if (!sharded || !half) return;
  // PURE reduces gradients in the low precision, DEFAULT in fp32
  // (composer/distributed/mosaic_parallelism.py).
  const bool pure = mixed == "pure";
  run.derive("fsdp.reduce_element_size", pure ? "2 B" : "4 B", "composer.mixed");
  facts.replace("fsdp.autocast", {"true", {}, ""});
}

// States the model: MPT (LLM Foundry's `mpt_causal_lm`) by its sizes, all other models by their
// name.
void set_model(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string kind = facts.word("composer.kind", "");
  const auto refuse = [&](const char* reason) {
    const Fact& fact = *facts.peek("composer.kind");
    facts.replace("refused.model", {reason, fact.where, fact.key});
  };
  if (kind.starts_with("mpt")) {
    facts.replace("model.base", {"mpt", {}, "model.name"});
    const auto hidden = facts.count("model.hidden");
    // The MLP is expansion_ratio times as wide as the model. The default of models/mpt is 4.
    const auto ratio = facts.count("composer.expansion").value_or(4);
    if (hidden && ratio != 4)
      run.derive("model.mlp", std::to_string(*hidden * ratio), "composer.expansion");
    // ALiBi replaces the learned positions.
    if (facts.flag("composer.alibi")) {
      run.derive("model.alibi", "1", "composer.alibi");
      run.derive("model.positions", "0", "composer.alibi");
    }
    return;
  }
  if (kind.find("diffusion") != std::string::npos)
    return refuse("a diffusion model is not modelled");
  // Image models have no sequence length, so the import must not ask for it.
  if (kind.starts_with("resnet") || kind.starts_with("vit"))
    facts.replace("no_sequence", {"true", {}, ""});
  if (kind.find("bert") != std::string::npos && !facts.has("model"))
    return run.derive("model", "bert-base", "composer.kind");
  if (!facts.has("model") && facts.has("composer.kind"))
    run.derive("model", *facts.text("composer.kind"), "composer.kind");
}

}  // namespace

void interpret_composer(Interpreted& run) {
  Facts& facts = run.facts;
  set_model(run);
  read_duration(run);
  const bool sharded = facts.has("fsdp.raw_sharding") || facts.has("composer.mixed");
  set_precision(run, sharded);
  if (facts.has("composer.attention"))
    run.derive("attention", *facts.text("composer.attention"), "composer.attention");
  if (facts.flag("composer.checkpointing"))
    run.derive("checkpointing", "true", "composer.checkpointing");
  // Files that state a momentum and no optimizer are Composer's image benchmarks, which train with
  // SGD.
  if (!facts.has("optimizer") && facts.has("momentum"))
    facts.set_default("optimizer", "sgd", "Composer's benchmark");
  facts.replace("kind", {sharded ? "fsdp" : facts.has("zero.level") ? "deepspeed" : "ddp", {}, ""});
}

// A file of MCLI has the training's config below `parameters`. Keys outside `parameters` (compute,
// name) are added unless `parameters` has the same key.
Node composer_tree(const Node& root, Facts&) {
  const auto parameters = root.find("parameters");
  if (!parameters || parameters->kind() != Node::Kind::map) return resolved(root);
  Node merged = resolved(*parameters);
  for (const auto& [key, value] : root.entries()) {
    if (key != "parameters" && !merged.find(key))
      merged = merged.with(key, value, root.key_location(key));
  }
  return merged;
}

}  // namespace lockstep
