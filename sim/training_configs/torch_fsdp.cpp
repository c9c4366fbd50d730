// Interprets PyTorch's FSDP: converts `fsdp.raw_*`, in the spelling of accelerate and other
// programs, to options of the scenario's `fsdp`. Sources: torch/distributed/fsdp/api.py
// (ShardingStrategy, BackwardPrefetch), and FullyShardedDataParallelPlugin of accelerate.
//
//   FULL_SHARD or 1, reshard_after_forward: true     -> sharding: full_shard
//   SHARD_GRAD_OP or 2, reshard_after_forward: false -> sharding: shard_grad_op
//   NO_SHARD or 3, HYBRID_SHARD or 4, HYBRID_SHARD_ZERO2 or 5 -> the same words
//   dp_replicate_size > 1                            -> hybrid_shard, dp_shard_size -> shard_group
#include <fmt/format.h>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const Facts& facts, const std::string& name, const std::string& allowed) {
  const Fact& fact = *facts.peek(name);
  throw ConfigError(Diagnostic{fact.where, fact.key,
                               fmt::format("{} is not known", in_quotes(fact.value)),
                               "allowed: " + allowed});
}

// "ShardingStrategy.FULL_SHARD" as "FULL_SHARD".
std::string last_part(const std::string& text) {
  const std::size_t dot = text.rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

// States the sharding. The value is a name or number of PyTorch's ShardingStrategy, or the truth
// value of reshard_after_forward.
void set_sharding(Interpreted& run, const std::string& name) {
  const std::string word = last_part(run.facts.word(name, ""));
  const auto is = [&](const char* spelling, const char* number) {
    return word == spelling || word == number;
  };
  if (is("full_shard", "1")) return run.derive("fsdp.sharding", "full_shard", name);
  if (is("shard_grad_op", "2")) return run.derive("fsdp.sharding", "shard_grad_op", name);
  if (is("no_shard", "3")) return run.derive("fsdp.sharding", "no_shard", name);
  if (is("hybrid_shard", "4")) return run.derive("fsdp.sharding", "hybrid_shard", name);
  if (is("hybrid_shard_zero2", "5") || word == "_hybrid_shard_zero2")
    return run.derive("fsdp.sharding", "hybrid_shard_zero2", name);
  if (word == "true") return run.derive("fsdp.sharding", "full_shard", name);
  if (word == "false") return run.derive("fsdp.sharding", "shard_grad_op", name);
  refuse(run.facts, name,
         "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, or 1 to 5");
}

// States the wrapping policy by auto_wrap_policy: TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or
// NO_WRAP. The classes to wrap are assumed to be the model's repeated blocks.
void set_wrap(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string word = facts.word("fsdp.raw_wrap", "");
  const bool size = word.find("size") != std::string::npos;
  if (size) {
    const std::string minimum = facts.text("fsdp.raw_minimum").value_or("0");
    run.derive("fsdp.wrap", fmt::format("{{policy: size, min_parameters: {}}}", minimum),
               "fsdp.raw_wrap");
  } else if (word == "no_wrap" || word == "none") {
    run.derive("fsdp.wrap", "{policy: none}", "fsdp.raw_wrap");
  } else if (!word.empty()) {
    run.derive("fsdp.wrap", "{policy: block}", "fsdp.raw_wrap");
  }
}

// States BackwardPrefetch of version 1, by name or by number, as accelerate accepts both.
void set_prefetch(Interpreted& run) {
  const std::string word = last_part(run.facts.word("fsdp.raw_prefetch", ""));
  if (word.empty()) return;
  const char* name = "fsdp.backward_prefetch";
  if (word == "backward_pre" || word == "1") return run.derive(name, "pre", "fsdp.raw_prefetch");
  if (word == "backward_post" || word == "2") return run.derive(name, "post", "fsdp.raw_prefetch");
  if (word == "no_prefetch" || word == "none" || word == "3")
    return run.derive(name, "none", "fsdp.raw_prefetch");
  refuse(run.facts, "fsdp.raw_prefetch", "BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH");
}

}  // namespace

// FSDP has version 1 unless the file states another. Only version 1 has a choice of prefetching;
// version 2 always prefetches in backward.
void interpret_fsdp(Interpreted& run) {
  Facts& facts = run.facts;
  facts.replace("strategy", {"fsdp", {}, ""});
  const std::int64_t version = facts.count("fsdp.version").value_or(1);
  if (facts.has("fsdp.raw_sharding")) {
    set_sharding(run, "fsdp.raw_sharding");
  } else if (facts.has("fsdp.raw_reshard")) {
    set_sharding(run, "fsdp.raw_reshard");
  }
  set_wrap(run);
  if (version == 1) set_prefetch(run);
  const std::int64_t replicate = facts.count("dp.replicate").value_or(1);
  const std::int64_t shard = facts.count("dp.shard").value_or(-1);
  // Several replicas of the shards mean hybrid sharding; whether parameters are resharded after
  // forward stays the same.
  if (replicate > 1 && shard != 1) {
    const bool grad_op = facts.word("fsdp.sharding", "") == "shard_grad_op";
    run.derive("fsdp.sharding", grad_op ? "hybrid_shard_zero2" : "hybrid_shard", "dp.replicate");
    if (shard > 1) run.derive("fsdp.shard_group", std::to_string(shard), "dp.shard");
  }
}

}  // namespace lockstep
