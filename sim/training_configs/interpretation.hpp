// What each program means by its facts: the rules that no key table can say. An interpreter turns the facts of
// its own keys (`deepspeed.*`) into facts of all formats.
#pragma once

#include <string>
#include <vector>

#include "training_configs/facts.hpp"

namespace lockstep {

struct Interpreted {
  Facts& facts;
  std::vector<std::string>& notes;

  // A fact that follows from another: with that one's place and key.
  void derive(const std::string& name, const std::string& value, const std::string& from);
};

// What DeepSpeed's engine does: stage, buckets, offload, precision. Reads `mixed`, too.
void interpret_deepspeed(Interpreted& run);
// PyTorch's FSDP as accelerate, Trainer, Composer and Lightning configure it.
void interpret_fsdp(Interpreted& run);
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

// `optimizer` as any program spells it, as the scenario's name and implementation.
void interpret_optimizer(Interpreted& run);
// `mixed` and `weights` as a precision, where the program has set none.
void interpret_precision(Interpreted& run);

}  // namespace lockstep
