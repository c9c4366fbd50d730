// Interpreters: the rules of each training program that a key table cannot express. To add a
// program, add its interpreter here and its keys to keys/.
//
// A config is read in three steps. Its tree is prepared (`*_tree`: wrappers taken off,
// interpolations put in). Its key table states facts, some under names of the program's own
// (`deepspeed.reduce_bucket`). The program's interpreter turns these into facts of all formats
// (`zero.bucket_size`), from which state_scenario() writes the scenario's fields.
//
//   ds_config.json  zero_optimization.reduce_bucket_size: 5e8    the config's key and value
//   keys/*.yaml       -> deepspeed.reduce_bucket = 5e8           elements
//   deepspeed.cpp     -> zero.bucket_size = 1000000000 B         bytes: 2 for each bf16 element
//   scenario_of.cpp   -> strategies: [{zero: {bucket_size: 1000000000 B}}]
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

// The facts of an import, and its remarks for the user. Interpreters read and replace facts; the
// order of calls is that of Import::interpret() in imported_config.cpp.
struct Interpreted {
  Facts& facts;
  std::vector<std::string>& notes;

  // States a fact that follows from the fact `from`, with the place and key of `from`, and marks
  // `from` as used. Replaces an earlier value.
  void derive(const std::string& name, const std::string& value, const std::string& from);
};

// Strategy, buckets, offload and precision of DeepSpeed's engine. Reads `mixed`, too, because the
// Trainer and accelerate may state the precision. Throws ConfigError if the two contradict each
// other.
void interpret_deepspeed(Interpreted& run);
// PyTorch's FSDP as accelerate, Trainer, Composer and Lightning configure it: `fsdp.raw_*` as the
// options of the scenario's `fsdp`. Throws ConfigError for words that PyTorch does not know.
void interpret_fsdp(Interpreted& run);
// One function for each program. They set `kind` (ddp, fsdp, deepspeed, megatron) or `strategy`,
// and the program's defaults.
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
// `optimizer` as any program spells it, as the scenario's name and implementation. Unknown
// optimizers become a reason under `refused.optimizer`.
void interpret_optimizer(Interpreted& run);
// `mixed` and `weights` as a precision, where the program has set none.
void interpret_precision(Interpreted& run);

// Preparation of trees, before the key table is applied. Each returns the tree to read, and may
// state facts that no single key says.
//
// torchtitan's JSON: states the sizes that the file holds layer by layer, and its kind of
// recomputation.
Node with_torchtitan_sizes(const Node& root, Facts& facts);
// Composer: MCLI's `parameters` beside `compute`; `${a.b}` in place.
Node composer_tree(const Node& root, Facts& facts);
// Lightning: a trainer or a strategy that stands alone, below `trainer`; `${a.b}` in place.
Node lightning_tree(const Node& root, Facts& facts);
// Megatron-LM: MODEL_ARGS of a test recipe, or the arguments of a launch script; names have
// underscores.
Node megatron_tree(const Node& root, Facts& facts);
// Replaces values `${path}` by the value at the path, from the root or (`${.x}`) from the same map.
Node resolved(const Node& root);

// Fills fields, asked and notes of `config` from the facts, and sets the fate of each account.
// Throws ConfigError if batch, accumulation and GPUs contradict each other.
void state_scenario(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);
// A model's name or path as fields of a scenario: a shipped model, a known name, a config.json, or
// sizes that the config spells out.
void state_model(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);

}  // namespace lockstep
