// Interprets low-rank adapters (LoRA, QLoRA) on a frozen base model, as peft and bitsandbytes
// implement them. Keys of all programs become the scenario's `adapters` and `frozen`
// (docs/adapters.md).
//
//   r, lora_r, lora_rank         -> adapters.rank
//   target_modules, lora_target  -> adapters.targets
//   modules_to_save              -> adapters.whole
//   load_in_4bit, load_in_8bit   -> frozen.quantization: nf4, int8
//   double_quantization          -> frozen.nested
#include <fmt/format.h>

#include <algorithm>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

bool contains(const std::string& text, const char* part) {
  return lower_case(text).find(part) != std::string::npos;
}

class AdapterStatement {
 public:
  explicit AdapterStatement(Interpreted& run) : run_(run), facts_(run.facts) {}

  void state() {
    find_source();
    if (source_ == nullptr) {
      if (facts_.has("quantized.bits"))
        refuse("quantized.bits", "quantised weights without adapters are not modelled");
      return;
    }
    if (refuses()) return;
    program_ = facts_.word("program", "");
    // LoraConfig's default `r`.
    facts_.set_default("lora.rank", "8", "peft");
    run_.derive("adapters.rank", *facts_.text("lora.rank"), "lora.rank");
    targets();
    if (const auto dropout = facts_.number("lora.dropout"); dropout && *dropout > 0)
      run_.derive("adapters.dropout", fmt::format("{}", *dropout), "lora.dropout");
    if (facts_.has("lora.whole"))
      run_.derive("adapters.whole", list_of(*facts_.text("lora.whole")), "lora.whole");
    base();
  }

 private:
  // The fact that shows that adapters are trained; errors point to its key.
  void find_source() {
    for (const char* fact : {"lora.rank", "trainer.peft", "tuner", "lora.targets"}) {
      if (source_ == nullptr && facts_.has(fact)) source_ = fact;
    }
  }

  void refuse(const char* fact, const std::string& reason) {
    const Fact& source = *facts_.find(fact);
    facts_.replace(std::string("refused.") + fact, {reason, source.where, source.key});
  }

  // Whether adapters are modelled with the strategy: DDP, ZeRO 1 and 2, and FSDP2 without offload.
  bool strategy_fits() {
    const std::string strategy = facts_.word("strategy", "ddp");
    const bool offloads = facts_.flag("fsdp.cpu_offload") || facts_.has("fsdp.offload.optimizer") ||
                          facts_.has("fsdp.zeropp.quantized_weights");
    if (strategy == "fsdp") return facts_.word("fsdp.version", "1") == "2" && !offloads;
    return strategy == "ddp" || strategy == "zero";
  }

  // Refuses methods, base models and strategies that a scenario cannot describe. Returns true if it
  // refused.
  bool refuses() {
    const std::string tuner = facts_.word("tuner", "lora");
    if (tuner == "freeze") {
      refuse("tuner",
             "which layers are frozen follows from the model: a scenario's `frozen` says it");
    } else if (tuner != "lora" && tuner != "qlora") {
      refuse("tuner", "this parameter-efficient method is not modelled");
    } else if (contains(facts_.word("model", ""), "gptq") ||
               contains(facts_.word("model", ""), "awq")) {
      refuse(source_, "a base that GPTQ or AWQ quantised is not modelled");
    } else if (!strategy_fits()) {
      refuse(source_, "adapters are modelled with DDP, ZeRO, and FSDP2 without offload");
    } else {
      return false;
    }
    return true;
  }

  // "a,b" as "[a, b]".
  static std::string list_of(std::string text) {
    if (text.starts_with('[') || text.find(',') == std::string::npos) return text;
    for (std::size_t at = 0; (at = text.find(',', at)) != std::string::npos; at += 2)
      text.replace(at, 1, text[at + 1] == ' ' ? "," : ", ");
    return "[" + text + "]";
  }

  // States the layers that get adapters, by the names of the model's layers. `all-linear` means
  // every linear layer of the blocks.
  void targets() {
    std::string names = facts_.word("lora.targets", "");
    if (names == "true" || names == "all" || contains(names, "all-linear") ||
        contains(names, "all_linear"))
      return run_.derive("adapters.targets", "all", "lora.targets");
    if (!names.empty() && names != "false")
      return run_.derive("adapters.targets", list_of(*facts_.text("lora.targets")), "lora.targets");
    // peft's default depends on the model. For Llama-like models it is query and value.
    const bool all = program_ == "llama-factory";
    facts_.set_default("adapters.targets", all ? "all" : "[q_proj, v_proj]",
                       all ? "LLaMA-Factory" : "peft, of Llama and its kin");
  }

  // States the type of the frozen weights. Under autocast, trained weights are fp32. Axolotl and
  // LLaMA-Factory load the frozen base in half precision; for other programs the file states the
  // type.
  void base() {
    const std::string mixed = facts_.word("mixed", "no");
    const bool half = contains(facts_.word("weights", ""), "float16") ||
                      program_ == "llama-factory" || program_ == "axolotl";
    if (!facts_.has("precision") && (mixed == "bf16" || mixed == "fp16")) {
      run_.derive("precision", "amp-" + mixed, "mixed");
      if (half) run_.derive("frozen.half", "true", facts_.has("weights") ? "weights" : "mixed");
    }
    const std::string bits = facts_.word("quantized.bits", "");
    if (bits.empty()) return;
    if (!contains(bits, "4") && !contains(bits, "8"))
      return refuse("quantized.bits", "this quantisation is not modelled");
    const bool narrow = contains(bits, "4");
    run_.derive("frozen.quantization", narrow ? "nf4" : "int8", "quantized.bits");
    // By default, LLaMA-Factory and Axolotl also quantise the quantization constants
    // (bnb_4bit_use_double_quant).
    const bool by_default = program_ == "llama-factory" || program_ == "axolotl";
    if (narrow && (facts_.flag("quantized.nested", by_default) || contains(bits, "-dq")))
      run_.derive("frozen.nested", "true",
                  facts_.has("quantized.nested") ? "quantized.nested" : "quantized.bits");
  }

  Interpreted& run_;
  Facts& facts_;
  const char* source_ = nullptr;
  std::string program_;
};

}  // namespace

void interpret_adapters(Interpreted& run) {
  AdapterStatement(run).state();
}

}  // namespace lockstep
