// Interpreters: the rules of each training program that a key table (key_table.hpp) cannot express.
// A new program needs an interpreter here and a table in keys/.
//
// A config is read in three steps. First its tree is prepared (for example by megatron_tree()):
// wrappers are removed, and interpolations replaced. Then its key table states facts, some under
// names of this program (`deepspeed.reduce_bucket`). Last, the program's interpreter turns these
// into facts of all formats (`zero.bucket_size`), from which state_scenario() writes the scenario's
// fields.
//
//   ds_config.json  zero_optimization.reduce_bucket_size: 5e8    the config's key and value
//   keys/*.yaml       -> deepspeed.reduce_bucket = 5e8           elements
//   deepspeed.cpp     -> zero.bucket_size = 1000000000 B         bytes: 2 for each bf16 element
//   scenario_of.cpp   -> strategies: [{zero: {bucket_size: 1000000000 B}}]
//
// Facts of all formats include model, model.* (sizes), sequence, gpus, nodes, gpus_per_node, micro,
// accumulation, global, per_gpu, steps, tokens, samples, epochs, precision, mixed, weights,
// optimizer, weight_decay, momentum, clip, checkpointing, recompute, attention, tensor, context,
// ulysses, expert, stages, schedule, chunks, dp.replicate, dp.shard, dp.ranks, kind, strategy, and
// below `ddp.`, `fsdp.`, `zero.` the options of that strategy. The value of a fact `refused.*` or
// `approximated.*` is a reason, and its key is the key that is refused or approximated.
#pragma once

#include <string>
#include <vector>

#include "core/yaml.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep {

// The facts of an import, and its notes for the user. Interpreters read and replace facts; the
// order of calls is that of Import::interpret() in imported_config.cpp.
struct Interpreted {
  Facts& facts;
  std::vector<std::string>& notes;

  // States a fact that follows from the fact `from`, with the place and key of `from`, and marks
  // `from` as used. Replaces an earlier value.
  void derive(const std::string& name, const std::string& value, const std::string& from);
};

// States strategy, buckets, offload and precision of DeepSpeed's engine. Also reads `mixed`,
// because the Trainer and accelerate may state the precision. Throws ConfigError if the two
// contradict each other.
void interpret_deepspeed(Interpreted& run);
// PyTorch's FSDP, as accelerate, torchtitan and other programs configure it: states `fsdp.raw_*` as
// the options of the scenario's `fsdp`. Throws ConfigError for words that PyTorch does not know.
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

// States `lora.*` and `quantized.*` as the scenario's `adapters` and `frozen`. Reads `strategy`,
// and may set `precision`.
void interpret_adapters(Interpreted& run);
// Converts `optimizer`, in the spelling of any program, to the scenario's name and implementation.
// For an unknown optimizer, sets `refused.optimizer`.
void interpret_optimizer(Interpreted& run);
// Derives `precision` from `mixed` and `weights` if the program has set none.
void interpret_precision(Interpreted& run);

// Prepare trees before the key table is applied. Each function returns the tree to read, and may
// state facts that no single key contains.
//
// torchtitan's JSON: states the model's sizes, which the file contains layer by layer, and the kind
// of recomputation.
Node with_torchtitan_sizes(const Node& root, Facts& facts);
// Composer: merges MCLI's `parameters` with the keys beside it, and replaces `${a.b}`.
Node composer_tree(const Node& root, Facts& facts);
// Lightning: puts a trainer or a strategy without a `trainer` around it below `trainer`, and
// replaces `${a.b}`.
Node lightning_tree(const Node& root, Facts& facts);
// Megatron-LM: returns MODEL_ARGS of a test recipe, or the arguments of a launch script, with
// underscores in names.
Node megatron_tree(const Node& root, Facts& facts);
// Replaces values `${path}` by the value at the path, which counts from the root or (`${.x}`) from
// the same map.
Node resolved(const Node& root);

// Fills fields, asked and notes of `config` from the facts, and sets the fate of each account.
// Throws ConfigError if batch, accumulation and GPUs contradict each other.
void state_scenario(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);
// States the model as fields of a scenario: by a shipped model, a known name, a config.json, or
// sizes that the config states.
void state_model(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);

}  // namespace lockstep
