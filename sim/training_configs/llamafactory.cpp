// Interprets configs of LLaMA-Factory (src/llamafactory/hparams) and Axolotl
// (src/axolotl/utils/schemas): applies their defaults before the Trainer's. Both programs also read
// the Trainer's keys, so both functions end with interpret_trainer().
//
//   LLaMA-Factory: cutoff_len -> sequence (2048)    finetuning_type -> adapters
//   Axolotl: sequence_len -> sequence    dp_shard_size -> fsdp    micro_batch_size -> micro (1)
#include <fmt/format.h>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// Reads the layout of version 1: `dist_config` names the strategy, cp_size is the number of
// context-parallel ranks, and cp_mode their exchange (Ulysses by default).
void read_new_layout(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string distribution = facts.word("llamafactory.distribution", "");
  if (distribution.starts_with("fsdp")) {
    run.derive("kind", "fsdp", "llamafactory.distribution");
    run.derive("fsdp.version", "2", "llamafactory.distribution");
  }
  if (!facts.has("llamafactory.context")) return;
  const bool ulysses = facts.word("llamafactory.context_mode", "ulysses") == "ulysses";
  run.derive(ulysses ? "ulysses" : "context", *facts.text("llamafactory.context"),
             "llamafactory.context");
}

}  // namespace

void interpret_llamafactory(Interpreted& run) {
  Facts& facts = run.facts;
  facts.replace("program", {"LLaMA-Factory", {}, ""});
  read_new_layout(run);
  facts.set_default("sequence", "2048", "LLaMA-Factory");
  facts.set_default("micro", "8", "transformers");
  if (!facts.has("trainer.bf16")) facts.set_default("trainer.bf16", "false", "LLaMA-Factory");
  // Keys of LLaMA-Factory's Megatron backend (mcore_adapter).
  const bool megatron = facts.has("megatron.distributed_optimizer") ||
                        facts.has("megatron.recompute") || facts.has("stages");
  if (!facts.has("checkpointing") && !megatron) {
    // Recomputation is on unless disable_gradient_checkpointing is set.
    if (facts.has("llamafactory.no_checkpointing")) {
      const bool off = facts.flag("llamafactory.no_checkpointing");
      run.derive("checkpointing", off ? "false" : "true", "llamafactory.no_checkpointing");
    } else {
      facts.set_default("checkpointing", "true", "LLaMA-Factory recomputes unless told not to");
    }
  }
  if (facts.flag("llamafactory.pure")) run.derive("weights", "bfloat16", "llamafactory.pure");
  interpret_trainer(run);
  if (!megatron) return;
  if (facts.flag("trainer.bf16")) run.derive("megatron.bf16", "true", "trainer.bf16");
  run.facts.replace("kind", {"megatron", {}, ""});
}

void interpret_axolotl(Interpreted& run) {
  Facts& facts = run.facts;
  facts.replace("program", {"Axolotl", {}, ""});
  if (facts.flag("axolotl.float16")) run.derive("weights", "float16", "axolotl.float16");
  if (facts.flag("axolotl.pure")) run.derive("weights", "bfloat16", "axolotl.pure");
  facts.set_default("checkpointing", "false", "Axolotl");
  if (!facts.has("weights")) facts.set_default("trainer.bf16", "true", "Axolotl: bf16 auto");
  facts.set_default("micro", "1", "Axolotl");
  const bool sharded = facts.has("fsdp.version") || facts.has("fsdp.raw_sharding") ||
                       facts.has("fsdp.raw_reshard") || facts.has("dp.shard");
  if (sharded) {
    run.facts.replace("kind", {"fsdp", {}, ""});
    if (facts.has("dp.shard")) facts.set_default("fsdp.version", "2", "Axolotl with dp_shard_size");
  }
  // With experts, Axolotl's dp_shard_size does not include the expert axis. In a scenario the
  // data-parallel ranks do include it.
  const std::int64_t experts = facts.count("expert").value_or(1);
  if (experts > 1 && facts.has("dp.shard")) {
    const std::int64_t ranks =
        facts.count("dp.shard").value_or(1) * facts.count("dp.replicate").value_or(1);
    run.derive("dp.ranks", std::to_string(ranks * experts), "dp.shard");
    facts.erase("dp.shard");
  }
  interpret_trainer(run);
}

}  // namespace lockstep
