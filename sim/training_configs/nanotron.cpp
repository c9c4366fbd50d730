// Interprets configs of nanotron (src/nanotron/config/config.py, parallelism_config.py): the
// precision, the model's family and the strategy.
//
//   parallelism.dp, tp, pp     -> data-parallel ranks, parallel.tensor, parallel.pipeline
//   optimizer.zero_stage 0, 1  -> ddp, zero: {stage: 1}
//   model.dtype bfloat16 with accumulate_grad_in_fp32 -> master-bf16-fp32-gradients
//   parallelism.pp_engine afab -> gpipe, 1f1b -> 1f1b
#include <fmt/format.h>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// All models of nanotron are Llama-like; with experts, they are taken as models/qwen3-moe.
void nanotron_model(Interpreted& run) {
  Facts& facts = run.facts;
  if (!facts.has("model.hidden")) return;
  facts.replace("model.base", {"llama", {}, "model.model_config"});
  facts.erase("model_divisor");
  if (!facts.has("nanotron.experts")) return;
  facts.replace("model.base", {"qwen3-moe", {}, "model.model_config"});
  facts.erase("model.tied");
  run.derive("model.experts", *facts.text("nanotron.experts"), "nanotron.experts");
  if (facts.has("nanotron.top"))
    run.derive("model.top", *facts.text("nanotron.top"), "nanotron.top");
  if (facts.has("nanotron.expert_mlp"))
    run.derive("model.mlp", *facts.text("nanotron.expert_mlp"), "nanotron.expert_mlp");
  run.notes.push_back(
      "nanotron's experts are priced as the experts of models/qwen3-moe, without tied embeddings");
}

}  // namespace

void interpret_nanotron(Interpreted& run) {
  Facts& facts = run.facts;
  facts.replace("recipe", {"nanotron", {}, ""});
  if (facts.count("expert").value_or(1) > 1) facts.set_default("expert.tensor", "1", "nanotron");
  nanotron_model(run);
  const std::string type = facts.word("nanotron.type", "float32");
  const bool wide = facts.flag("nanotron.wide_gradients");
  if (type == "bfloat16")
    run.derive("precision", wide ? "master-bf16-fp32-gradients" : "pure-bf16", "nanotron.type");
  else
    run.derive("precision", type == "float16" ? "pure-fp16" : "torch-fp32", "nanotron.type");
  if (facts.count("tensor").value_or(1) > 1) {
    // tp_mode REDUCE_SCATTER means sequence parallelism; ALL_REDUCE means that there is none.
    const bool sequence = facts.word("nanotron.tensor_mode", "all_reduce") == "reduce_scatter";
    run.derive("sequence_parallel", sequence ? "true" : "false", "nanotron.tensor_mode");
  }
  if (facts.flag("nanotron.fused", true))
    run.derive("optimizer.implementation", "fused", "nanotron.fused");
  if (facts.count("stages").value_or(1) > 1) {
    const std::string engine = facts.word("schedule", "1f1b");
    run.derive("schedule", engine == "afab" ? "gpipe" : "1f1b", "schedule");
  }
  if (facts.count("nanotron.zero").value_or(0) > 0) {
    run.derive("strategy", "zero", "nanotron.zero");
    return run.derive("zero.stage", "1", "nanotron.zero");
  }
  run.derive("strategy", "ddp", "nanotron.zero");
  if (const auto bucket = facts.text("nanotron.bucket"))
    run.derive("ddp.bucket_size", *bucket + " MiB", "nanotron.bucket");
}

}  // namespace lockstep
