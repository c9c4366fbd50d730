// The meaning of each program's facts: rules that a key table cannot express. To add a program, add
// its interpreter here and its keys to keys/.
//
// A config is read in three steps. Its tree is prepared (`*_tree`: wrappers taken off,
// interpolations put in). Its key table states facts, some under names of the program's own
// (`deepspeed.reduce_bucket`). The program's interpreter turns these into facts of all formats
// (`zero.bucket_size`), from which state_scenario() writes the scenario's fields.
//
// Facts of all formats: model, model.* (sizes), sequence, gpus, nodes, gpus_per_node, micro,
// accumulation, global, per_gpu, steps, tokens, samples, epochs, precision, mixed, weights,
// optimizer, weight_decay, momentum, clip, checkpointing, recompute, attention, tensor, context,
// ulysses, expert, stages, schedule, chunks, dp.replicate, dp.shard, dp.ranks, kind, strategy, and
// below `ddp.`, `fsdp.`, `zero.` the options of that strategy. `refused.*` and `approximated.*`
// hold reasons at the key that they are about.
#pragma once

#include <string>
#include <vector>

#include "core/yaml.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep {

// The facts of an import, and its remarks for the user.
struct Interpreted {
  Facts& facts;
  std::vector<std::string>& notes;

  // States a fact that follows from the fact `from`, with the place and key of `from`.
  void derive(const std::string& name, const std::string& value, const std::string& from);
};

// Stage, buckets, offload and precision of DeepSpeed's engine. Reads `mixed`, too.
void interpret_deepspeed(Interpreted& run);
// PyTorch's FSDP as accelerate, Trainer, Composer and Lightning configure it.
void interpret_fsdp(Interpreted& run);
// One function for each program. They set `kind` or `strategy`, and the program's defaults.
void interpret_accelerate(Interpreted& run);
void interpret_trainer(Interpreted& run);
void interpret_llamafactory(Interpreted& run);
void interpret_axolotl(Interpreted& run);
void interpret_torchtitan(Interpreted& run);
void interpret_nanotron(Interpreted& run);
void interpret_composer(Interpreted& run);
void interpret_lightning(Interpreted& run);
void interpret_litgpt(Interpreted& run);
void interpret_megatron(Interpreted& run);

// `lora.*` and `quantized.*` as the scenario's `adapters` and `frozen`; reads `strategy`, sets
// `precision`.
void interpret_adapters(Interpreted& run);
// `optimizer` as any program spells it, as the scenario's name and implementation.
void interpret_optimizer(Interpreted& run);
// `mixed` and `weights` as a precision, where the program has set none.
void interpret_precision(Interpreted& run);

// States the sizes that torchtitan's JSON holds layer by layer, and its kind of recomputation.
Node with_torchtitan_sizes(const Node& root, Facts& facts);
// MCLI's `parameters` beside `compute`; `${a.b}` in place.
Node composer_tree(const Node& root, Facts& facts);
// A trainer or a strategy that stands alone, below `trainer`; `${a.b}` in place.
Node lightning_tree(const Node& root, Facts& facts);
// MODEL_ARGS of a test recipe, or the arguments of a launch script; names have underscores.
Node megatron_tree(const Node& root, Facts& facts);
// Replaces values `${path}` by the value at the path, from the root or (`${.x}`) from the same map.
Node resolved(const Node& root);

// Fills fields, asked and notes of `config`, and sets the fate of each account.
void state_scenario(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);
// A model's name or path as fields of a scenario: a shipped model, a known name, a config.json.
void state_model(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);

}  // namespace lockstep
