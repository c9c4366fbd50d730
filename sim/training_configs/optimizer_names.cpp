// Converts the optimizers and precisions of all programs to a scenario's. An optimizer's name is
// searched for known parts, the most specific first, because programs decorate names
// (adamw_torch_fused, paged_adamw_8bit, DeepSpeedCPUAdam). Sources: torch.optim, transformers
// (training_args.py, OptimizerNames), Apex, bitsandbytes, DeepSpeed, Composer, torchtitan.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// A part of a name in lower case, and the scenario's name of the optimizer; "" = refused.
struct Spelling {
  const char* part;
  const char* name;  // the scenario's; "" = refused
};

// The first part that is found decides, so "adamw" stands before "adam".
constexpr std::array spellings{
    Spelling{"galore", ""},         Spelling{"apollo", ""},        Spelling{"adafactor", ""},
    Spelling{"shampoo", ""},        Spelling{"onebit", ""},        Spelling{"zeroone", ""},
    Spelling{"adagrad", ""},        Spelling{"schedule_free", ""}, Spelling{"sophia", ""},
    Spelling{"ademamix", ""},       Spelling{"lomo", ""},          Spelling{"grokadam", ""},
    Spelling{"stable_adamw", ""},   Spelling{"muon", "muon"},      Spelling{"lion", "lion"},
    Spelling{"lamb", "lamb"},       Spelling{"adamw", "adamw"},    Spelling{"adam", "adam"},
    Spelling{"rmsprop", "rmsprop"}, Spelling{"sgd", "sgd"}};

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// The implementation is one kernel for all tensors if the name contains "fused", or if it is a
// library's own kernel.
void interpret_optimizer(Interpreted& run) {
  Facts& facts = run.facts;
  const Fact* fact = facts.find("optimizer");
  if (!fact) return;
  std::string word = lower_case(fact->value);
  const std::size_t dot = word.rfind('.');
  if (dot != std::string::npos) word = word.substr(dot + 1);  // torch.optim.AdamW
  const auto found =
      std::find_if(spellings.begin(), spellings.end(),
                   [&](const Spelling& spelling) { return holds(word, spelling.part); });
  if (found == spellings.end() || *found->name == '\0') {
    facts.replace(
        "refused.optimizer",
        {fmt::format("the optimizer {} is not modelled", fact->value), fact->where, fact->key});
    return;
  }
  run.derive("optimizer.name", found->name, "optimizer");
  // States in fewer bits are not modelled, so the optimizer is modelled with fp32 states.
  const bool narrow = holds(word, "8bit") || holds(word, "4bit") || holds(word, "fp8") ||
                      holds(word, "opt_states_bf16");
  if (narrow)
    run.notes.push_back(
        fmt::format("{}: its states are priced in fp32, an upper bound of memory", fact->value));
  if (holds(word, "paged"))
    run.notes.push_back(
        fmt::format("{}: its states are priced as resident on the device", fact->value));
  const bool one_kernel = holds(word, "fused") || holds(word, "apex") || holds(word, "8bit") ||
                          holds(word, "cpuadam") || holds(word, "bnb");
  if (one_kernel) run.derive("optimizer.implementation", "fused", "optimizer");
}

// `mixed` (bf16, fp16, fp8, no) is the type of matrix products, `weights` (torch_dtype) the type of
// parameters.
void interpret_precision(Interpreted& run) {
  Facts& facts = run.facts;
  if (facts.has("precision") || facts.has("undecided.precision")) return;
  const std::string mixed = facts.word("mixed", "no");
  const std::string weights = facts.word("weights", "");
  const bool sharded = facts.word("strategy", "") == "fsdp";
  const auto half = [&](const char* name) {
    return weights == name || weights == std::string("torch.") + name;
  };
  if (mixed == "bf16" || mixed == "fp8") {
    // accelerate casts a sharded model's parameters up to fp32 (accelerator.py, prepare_model;
    // utils/fsdp_utils.py).
    const bool pure = half("bfloat16") && !sharded;
    run.derive("precision", pure ? "pure-bf16" : "amp-bf16", pure ? "weights" : "mixed");
    return;
  }
  if (mixed == "fp16") return run.derive("precision", "amp-fp16", "mixed");
  if (half("bfloat16")) return run.derive("precision", "pure-bf16", "weights");
  if (half("float16")) {
    run.notes.push_back("fp16 weights and states are priced as bf16 ones: their bytes are equal");
    return run.derive("precision", "pure-bf16", "weights");
  }
  if (facts.flag("tf32")) return run.derive("precision", "tf32", "tf32");
  run.derive("precision", "torch-fp32", "mixed");
}

}  // namespace lockstep
