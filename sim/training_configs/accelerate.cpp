// Interprets Hugging Face accelerate's launch files
// (src/accelerate/commands/config/config_args.py): finds the kind of training. `distributed_type`
// selects the sections of the file that count; all other sections have no effect.
//
//   distributed_type: NO -> one GPU        MULTI_GPU -> ddp
//                     FSDP -> fsdp         DEEPSPEED -> the stage in deepspeed_config
#include <fmt/format.h>

#include "training_configs/interpretation.hpp"

namespace lockstep {

void interpret_accelerate(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string kind = facts.word("accelerate.kind", "no");
  // mixed_precision: fp8 uses Transformer Engine with delayed scaling by default.
  if (facts.word("mixed", "no") == "fp8") {
    run.derive("low_precision", "fp8-delayed", "mixed");
  }
  // Only GPUs with DDP, FSDP or DeepSpeed are modelled; all other devices and engines are refused.
  const bool cpu = kind.find("cpu") != std::string::npos || facts.flag("accelerate.cpu");
  const bool other = kind == "megatron_lm" || kind == "tpu" || kind == "xla" ||
                     kind.starts_with("multi_npu") || kind.starts_with("multi_xpu") ||
                     kind == "mps";
  if (cpu || other) {
    const Fact& fact =
        *facts.peek(facts.has("accelerate.kind") ? "accelerate.kind" : "accelerate.cpu");
    facts.replace(
        "refused.kind",
        {fmt::format("training of kind {} is not modelled: GPUs with DDP, FSDP or DeepSpeed are",
                     fact.value),
         fact.where, fact.key});
    return;
  }
  // DeepSpeedPlugin of utils/dataclasses.py uses stage 2 unless a file states a stage.
  if (kind == "deepspeed" && !facts.has("zero.level") && !facts.has("deepspeed.reduce_bucket"))
    facts.set_default("zero.level", "2", "accelerate's DeepSpeed plugin");
  if (kind == "fsdp" || kind == "deepspeed") return run.derive("kind", kind, "accelerate.kind");
  run.derive("kind", "ddp", "accelerate.kind");
  // Without a kind of distribution and without a number of processes above 1, there is one GPU.
  const bool alone = kind == "no" || kind == "false";
  if (alone && facts.count("gpus").value_or(1) <= 1) run.derive("gpus", "1", "accelerate.kind");
}

}  // namespace lockstep
