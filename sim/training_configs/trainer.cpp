// Interprets arguments of Hugging Face's Trainer (transformers, training_args.py) and of programs
// that build on it (TRL, alignment-handbook, open-r1, ms-swift): defaults and kinds of training.
//
//   per_device_train_batch_size (8)       -> batch.micro
//   fsdp: "full_shard auto_wrap offload"  -> fsdp: {sharding, wrap: {policy: block}, cpu_offload}
//   deepspeed: ds.json                    -> the file is followed
//   bf16, fp16                            -> amp-bf16, amp-fp16
//   attn_implementation                   -> eager: plain, all others: fused
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Marks the key of a fact as refused or approximated, with a reason.
void refuse(Interpreted& run, const std::string& fact, const std::string& reason) {
  const Fact& source = *run.facts.find(fact);
  run.facts.replace("refused." + fact, {reason, source.where, source.key});
}

void approximate(Interpreted& run, const std::string& fact, const std::string& reason) {
  const Fact& source = *run.facts.find(fact);
  run.facts.replace("approximated." + fact, {reason, source.where, source.key});
}

// Reads `fsdp`: words such as "full_shard auto_wrap offload", a list of such words, or true. Keys
// of fsdp_config take precedence.
void read_fsdp_words(Interpreted& run) {
  const std::string words = run.facts.word("trainer.fsdp", "");
  if (words.empty() || words == "[]" || words == "false") return;
  run.facts.replace("kind", {"fsdp", {}, ""});
  // "hybrid_shard_zero2" comes first, because it contains "hybrid_shard".
  for (const char* name :
       {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard_zero2", "hybrid_shard"}) {
    if (!holds(words, name)) continue;
    if (!run.facts.has("fsdp.raw_sharding") && !run.facts.has("fsdp.raw_reshard"))
      run.derive("fsdp.raw_sharding", name, "trainer.fsdp");
    break;
  }
  if (holds(words, "auto_wrap") && !run.facts.has("fsdp.raw_wrap"))
    run.derive("fsdp.raw_wrap", "transformer_based_wrap", "trainer.fsdp");
  if (holds(words, "offload") && !run.facts.has("fsdp.cpu_offload"))
    run.derive("fsdp.cpu_offload", "true", "trainer.fsdp");
}

// Reads attn_implementation: eager attention writes the scores to memory; sdpa and
// flash_attention_* do not.
void read_attention(Interpreted& run) {
  const std::string word = run.facts.word("trainer.attention", "");
  if (word == "eager") return run.derive("attention", "plain", "trainer.attention");
  if (word.empty()) return;
  run.derive("attention", "fused", "trainer.attention");
  if (holds(word, "flash_attention_3") || holds(word, "flash-attn3"))
    approximate(run, "trainer.attention",
                "FlashAttention 3 is priced as 2: an upper bound of the step");
}

// Refuses reinforcement learning that generates answers during training. Returns true if the file
// has it.
bool refuses_generation(Interpreted& run) {
  for (const char* fact : {"trainer.generation", "trainer.generations", "trainer.rewards"}) {
    if (!run.facts.has(fact)) continue;
    refuse(run, fact,
           "generation of answers (GRPO, online reinforcement learning) is not modelled");
    return true;
  }
  return false;
}

// Refuses training on preferences, which has two sequences per sample, and in DPO a frozen
// reference model. If the user leaves the key out, a sample is modelled as two sequences.
void read_preferences(Interpreted& run) {
  Facts& facts = run.facts;
  constexpr std::array stages{"dpo", "ipo", "kto", "orpo", "simpo", "rm", "ppo", "grpo"};
  const std::string stage = facts.word("trainer.stage", facts.word("trainer.rlhf", ""));
  const bool named = std::find(stages.begin(), stages.end(), stage) != stages.end();
  const bool told = named || facts.has("trainer.preference") || facts.has("trainer.prompt") ||
                    facts.word("trainer.loss", "") == "orpo";
  if (!told) return;
  for (const char* fact :
       {"trainer.stage", "trainer.rlhf", "trainer.preference", "trainer.prompt", "trainer.loss"}) {
    if (!facts.has(fact)) continue;
    refuse(
        run, fact,
        "training on preferences is not modelled: two sequences a sample, and in DPO the forward "
        "pass of a frozen reference model; left out, it is priced as two sequences a sample");
    break;
  }
  const Fact* micro = facts.peek("micro");
  // A micro-batch from the command line is not doubled.
  if (!micro || micro->key.starts_with("--")) return;
  run.derive("micro", std::to_string(2 * facts.count("micro").value_or(1)), "micro");
}

// Whether the file has an argument that only TRL has: a sequence length, packing, preferences,
// generations.
bool is_trl(const Facts& facts) {
  const auto any = [&](const char* name) { return facts.has(name); };
  return any("sequence") || any("trainer.packing") || any("trainer.preference") ||
         any("trainer.generations");
}

}  // namespace

void interpret_trainer(Interpreted& run) {
  Facts& facts = run.facts;
  const bool configures = facts.has("model") || facts.has("micro") || facts.has("optimizer");
  // A file that contains only FSDP's settings, to which `fsdp_config` refers, gets no defaults.
  const bool fragment = !configures && facts.has("trainer.fsdp");
  read_fsdp_words(run);
  if (fragment) return;
  // SFTConfig of TRL differs from TrainingArguments in three defaults.
  const bool trl = !facts.has("program") && (is_trl(facts) || !facts.has("micro"));
  if (trl) {
    facts.set_default("sequence", "1024", "TRL of 2026");
    if (!facts.flag("trainer.fp16")) facts.set_default("trainer.bf16", "true", "TRL of 2026");
    facts.set_default("checkpointing", "true", "TRL of 2026");
  }
  facts.set_default("micro", "8", "transformers");
  facts.set_default("optimizer", "adamw_torch_fused", "transformers 5; adamw_torch in 4");
  facts.set_default("clip", "1.0", "transformers");
  if (!facts.has("mixed")) {
    if (facts.flag("trainer.bf16")) run.derive("mixed", "bf16", "trainer.bf16");
    if (facts.flag("trainer.fp16")) run.derive("mixed", "fp16", "trainer.fp16");
  }
  if (facts.count("trainer.max_steps").value_or(-1) > 0)
    run.derive("steps", *facts.text("trainer.max_steps"), "trainer.max_steps");
  if (facts.has("trainer.bucket"))
    run.derive("ddp.bucket_size", *facts.text("trainer.bucket") + " MiB", "trainer.bucket");
  read_attention(run);
  if (!refuses_generation(run)) read_preferences(run);
  if (!facts.flag("trainer.packing") && facts.has("sequence"))
    run.notes.push_back("samples are priced at the full sequence length: shorter ones cost less");
}

}  // namespace lockstep
