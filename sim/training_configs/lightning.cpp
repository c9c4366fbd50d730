// Interprets configs of PyTorch Lightning (jsonargparse and Hydra) and litgpt: precisions, and
// strategies by class or alias. Keys follow lightning/pytorch/trainer/trainer.py,
// lightning/pytorch/strategies/, and litgpt/args.py.
//
//   trainer.precision: bf16-mixed -> amp-bf16      bf16-true -> pure-bf16     32-true -> torch-fp32
//   trainer.strategy:  ddp, fsdp, deepspeed_stage_2_offload, or class_path: ...FSDPStrategy
//   FSDPStrategy -> fsdp   DeepSpeedStrategy -> the stage   ModelParallelStrategy -> fsdp version 2
#include <fmt/format.h>

#include <array>

#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// "bf16-mixed" and "16-mixed" mean autocast; with "bf16-true" and "16-true" the weights themselves
// have this type; "transformer-engine" means fp8 products with delayed scaling. Older files have
// 16, bf16 and 32.
void set_precision(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string word = facts.word("lightning.precision", "32-true");
  const char* from = "lightning.precision";
  if (word == "bf16-true")
    return run.derive("weights", "bfloat16", from), run.derive("precision", "pure-bf16", from);
  if (word == "16-true") {
    run.notes.push_back("fp16 weights and states are priced as bf16 ones: their bytes are equal");
    return run.derive("precision", "pure-bf16", from);
  }
  if (word.starts_with("bf16")) return run.derive("mixed", "bf16", from);
  if (word.starts_with("16")) return run.derive("mixed", "fp16", from);
  if (word.starts_with("transformer-engine")) {
    run.derive("low_precision", "fp8-delayed", from);
    return run.derive("mixed", "bf16", from);
  }
  run.derive("mixed", "no", from);
}

// Reads `strategy`: an alias ("auto", "ddp", "fsdp", "deepspeed_stage_2_offload") or a class.
void read_strategy(Interpreted& run) {
  Facts& facts = run.facts;
  const std::string word = facts.word("lightning.strategy", "");
  const auto holds = [&](const char* part) { return word.find(part) != std::string::npos; };
  const char* from = "lightning.strategy";
  // ModelParallelStrategy is FSDP2 over data_parallel_size ranks and tensor parallelism over
  // tensor_parallel_size ranks.
  if (holds("modelparallel") || facts.has("lightning.data")) {
    run.derive("kind", "fsdp", from);
    facts.replace("fsdp.version", {"2", {}, ""});
    if (facts.has("lightning.data"))
      run.derive("dp.shard", *facts.text("lightning.data"), "lightning.data");
    if (!facts.has("tensor"))
      run.notes.push_back(
          "ModelParallelStrategy without degrees: tensor over a node's devices, data over nodes; "
          "say parallel.tensor by --set");
    return;
  }
  if (holds("fsdp")) {
    run.derive("kind", "fsdp", from);
    // FSDPStrategy wraps no parts of the model unless auto_wrap_policy is given. A policy is a size
    // or a set of classes.
    const std::string wrap = facts.word("lightning.wrap", "null");
    facts.replace("fsdp.raw_wrap", {wrap == "null"  ? "none"
                                    : holds("size") ? "size"
                                                    : "transformer",
                                    {},
                                    ""});
    const std::string checkpointing = facts.word("lightning.checkpointing", "null");
    if (checkpointing != "null" && checkpointing != "[]")
      run.derive("checkpointing", "true", "lightning.checkpointing");
    return;
  }
  if (holds("deepspeed") || facts.has("zero.level")) {
    run.derive("kind", "deepspeed", from);
    // The alias contains the stage; a given `stage` wins.
    for (const char* stage : {"1", "2", "3"}) {
      if (holds((std::string("stage_") + stage).c_str()) && !facts.has("zero.level"))
        run.derive("zero.level", stage, from);
    }
    const bool optimizer = facts.flag("lightning.offload_optimizer") || holds("offload");
    if (optimizer)
      facts.replace("offload.optimizer", {facts.word("lightning.optimizer_device", "cpu"), {}, ""});
    if (facts.flag("lightning.offload_parameters"))
      facts.replace("offload.parameters",
                    {facts.word("lightning.parameters_device", "cpu"), {}, ""});
    return;
  }
  if (word.empty()) return;
  // The alias ddp_find_unused_parameters_true.
  if (holds("find_unused")) facts.replace("ddp.find_unused_parameters", {"true", {}, ""});
  run.derive("kind", "ddp", from);
}

}  // namespace

void interpret_lightning(Interpreted& run) {
  Facts& facts = run.facts;
  set_precision(run);
  read_strategy(run);
  if (facts.count("lightning.steps").value_or(-1) > 0)
    run.derive("steps", *facts.text("lightning.steps"), "lightning.steps");
  // bucket_cap_mb of DDPStrategy is in MiB.
  if (facts.has("lightning.bucket"))
    run.derive("ddp.bucket_size", *facts.text("lightning.bucket") + " MiB", "lightning.bucket");
}

namespace {

// Converts litgpt's switches (lora_query, lora_key and others) to names of layers in
// models/llama.yaml, although litgpt computes query, key and value in one layer. By default, query
// and value have adapters.
void read_litgpt_adapters(Interpreted& run) {
  Facts& facts = run.facts;
  if (!facts.has("lora.rank")) return;
  std::string names;
  for (const auto& [fact, layers] : {std::pair{"query", "q_proj"},
                                     {"key", "k_proj"},
                                     {"value", "v_proj"},
                                     {"projection", "o_proj"},
                                     {"mlp", "gate_proj, up_proj, down_proj"},
                                     {"head", "lm_head"}}) {
    const bool usual = fact == std::string_view("query") || fact == std::string_view("value");
    if (!facts.flag(std::string("litgpt.") + fact, usual)) continue;
    names += (names.empty() ? "" : ", ") + std::string(layers);
  }
  run.derive("lora.targets", "[" + names + "]", "lora.rank");
}

}  // namespace

// litgpt trains on several devices with FSDPStrategy, whose units are the model's blocks.
void interpret_litgpt(Interpreted& run) {
  read_litgpt_adapters(run);
  Facts& facts = run.facts;
  set_precision(run);
  facts.set_default("optimizer", "AdamW", "litgpt");
  const auto devices = facts.count("gpus_per_node");
  const bool alone = devices && *devices == 1 && facts.count("nodes").value_or(1) == 1;
  facts.replace("kind", {alone ? "ddp" : "fsdp", {}, ""});
  if (!alone) facts.set_default("fsdp.raw_wrap", "transformer", "litgpt's FSDPStrategy");
}

namespace {

constexpr std::array strategy_classes{"FSDPStrategy", "DDPStrategy", "DeepSpeedStrategy",
                                      "ModelParallelStrategy"};

// Whether the map describes a strategy: it names a strategy's class.
bool names_strategy(const Node& node) {
  for (const char* key : {"_target_", "class_path"}) {
    const auto name = node.find(key);
    if (!name) continue;
    for (const char* part : strategy_classes) {
      if (name->scalar().find(part) != std::string::npos) return true;
    }
  }
  return false;
}

// Hydra puts a strategy's arguments beside `_target_`, jsonargparse below `init_args`. Returns the
// second form.
Node with_arguments(const Node& strategy) {
  if (strategy.kind() != Node::Kind::map || !strategy.find("_target_")) return strategy;
  Node arguments = strategy.empty_map(), outer = strategy.empty_map();
  for (const auto& [key, value] : strategy.entries()) {
    Node& side = key.starts_with('_') ? outer : arguments;
    side = side.with(key, value, strategy.key_location(key));
  }
  return outer.with("init_args", arguments, strategy.where());
}

// Whether the map describes a trainer: it has at least two of a trainer's arguments.
bool stands_for_trainer(const Node& node) {
  int hits = 0;
  for (const char* key :
       {"accelerator", "devices", "precision", "num_nodes", "strategy", "max_epochs", "max_steps"})
    hits += node.find(key).has_value();
  return hits >= 2;
}

}  // namespace

Node lightning_tree(const Node& given, Facts&) {
  Node root = resolved(given);
  if (names_strategy(root)) {
    const Node trainer = root.empty_map().with("strategy", root, root.where());
    root = root.empty_map().with("trainer", trainer, root.where());
  } else if (!root.find("trainer") && stands_for_trainer(root)) {
    root = root.empty_map().with("trainer", root, root.where());
  } else if (const auto strategy = root.find("strategy"); strategy && !root.find("trainer")) {
    const Node trainer =
        root.empty_map().with("strategy", *strategy, root.key_location("strategy"));
    root = root.without("strategy").with("trainer", trainer, root.where());
  }
  const auto trainer = root.find("trainer");
  const auto strategy = trainer ? trainer->find("strategy") : std::nullopt;
  if (!strategy) return root;
  const Node changed =
      trainer->with("strategy", with_arguments(*strategy), trainer->key_location("strategy"));
  return root.with("trainer", changed, root.key_location("trainer"));
}

}  // namespace lockstep
