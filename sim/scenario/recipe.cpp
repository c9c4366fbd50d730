// The defaults of each recipe's training code. A recipe is a table of dotted fields and values.
// Before the reader runs, values that the file does not state are put into the YAML tree, with the
// line of `recipe:` as their place. So the reader checks a recipe's values like a user's.
//
// Each table names its source. The command `lockstep list recipes` prints the tables for
// docs/scenario-format.md.
#include "scenario/recipe.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

using Settings = std::vector<RecipeSetting>;

// The training loops of PyTorch's own examples, which change none of PyTorch's defaults: TF32 only
// in convolutions, and for parameters on a GPU the foreach implementation of the optimizer.
const Settings pytorch{
    {"precision", "torch-fp32"},
    {"optimizer.implementation", "foreach"},
};
// pytorch/torchtitan of 2024: train_configs/llama3_8b.toml (clipping at 1, selective checkpointing
// by `op`) and the defaults of its job configuration (bf16 parameters, fp32 reduction, fused AdamW,
// decay 0.1). With tensor parallelism, torchtitan also uses sequence parallelism and a loss that is
// split over the vocabulary.
const Settings torchtitan{
    {"precision", "amp-bf16"},
    {"optimizer.name", "adamw"},
    {"optimizer.implementation", "fused"},
    {"optimizer.weight_decay", "0.1"},
    {"gradient_clipping", "1"},
    {"activation_checkpointing", "true"},
    {"recompute", "operators"},
    {"strategies.fsdp.version", "2"},
    {"strategies.fsdp.reduce_element_size", "4 B"},
    {"parallel.tensor.sequence", "true"},
    {"parallel.tensor.split_loss", "true"},
    {"parallel.tensor.dtensor", "false"},
    {"parallel.context.exchange", "gather"},
    {"parallel.expert.tensor", "1"},
    {"parallel.expert.keep_exchanged", "false"},
};
// torchtitan of 2026 captures forward and backward in a CUDA graph unless `disable_cuda_graphs`
// (config/configs.py, trainer.py); torch.compile stays off by default. Its run_train.sh sets
// PYTORCH_CUDA_ALLOC_CONF to expandable segments.
Settings torchtitan_2026() {
  Settings settings = torchtitan;
  settings.push_back({"cuda_graphs", "true"});
  settings.push_back({"framework.expandable_segments", "true"});
  return settings;
}
// NVIDIA/Megatron-LM of 2021: training/arguments.py with --bf16 (gradients accumulated and reduced
// in fp32; Apex's fused Adam with decoupled decay 0.01; clipping at 1). Settings of
// `parallel.tensor` follow tensor_parallel/layers.py: activations are gathered a second time in
// backward, and exchanges in backward overlap with the weight gradients.
const Settings megatron{
    {"precision", "master-bf16-fp32-gradients"},
    {"optimizer.name", "adamw"},
    {"optimizer.implementation", "fused"},
    {"optimizer.weight_decay", "0.01"},
    {"gradient_clipping", "1"},
    {"framework.name", "megatron"},
    {"parallel.tensor.sequence", "true"},
    {"parallel.tensor.keep_gathered", "false"},
    {"parallel.tensor.shared_exchanges", "true"},
    {"parallel.tensor.split_loss", "true"},
    {"parallel.tensor.overlap", "backward"},
    {"parallel.tensor.copies", "false"},
    {"parallel.tensor.repeat_last_exchange", "true"},
    {"parallel.context.wide_gradients", "false"},
    {"parallel.expert.dispatch", "gather"},
    {"parallel.pipeline.transfers", "host"},
    {"parallel.pipeline.keep_outputs", "false"},
};
// Megatron-core since 0.8 uses Transformer Engine's layers (--transformer-impl transformer_engine),
// with cuDNN's attention on Hopper. It fuses gated activations, rotary embeddings, and dropouts
// with the sums after them. The host time per operator of Megatron's older layers (`framework.name:
// megatron`) does not apply.
Settings megatron_2024() {
  Settings settings = megatron;
  std::erase_if(settings, [](const RecipeSetting& s) { return s.field == "framework.name"; });
  settings.push_back({"fused_kernels", "true"});
  settings.push_back({"framework.flash_attention", "3"});
  return settings;
}
// huggingface/nanotron: examples/config_tiny_llama.yaml. Its layers are Megatron-LM's, so
// `framework.name` and most settings of `parallel` equal the recipe `megatron`.
const Settings nanotron{
    {"precision", "master-bf16-fp32-gradients"},
    {"optimizer.name", "adamw"},
    {"optimizer.implementation", "fused"},
    {"optimizer.weight_decay", "0.01"},
    {"gradient_clipping", "1"},
    {"framework.name", "nanotron"},
    {"parallel.tensor.sequence", "true"},
    {"parallel.tensor.keep_gathered", "false"},
    {"parallel.tensor.shared_exchanges", "true"},
    {"parallel.tensor.split_loss", "true"},
    {"parallel.tensor.overlap", "backward"},
    {"parallel.tensor.copies", "false"},
    {"parallel.pipeline.transfers", "host"},
};
// deepspeedai/DeepSpeed: runtime/config.py and zero/config.py with `bf16: {enabled: true}` (buckets
// of 5e8 elements, which are 1 GB in bf16; no overlap at stages 1 and 2). DeepSpeed has a fused
// Adam of its own.
const Settings deepspeed{
    {"precision", "master-bf16"},
    {"optimizer.name", "adamw"},
    {"optimizer.implementation", "fused"},
    {"strategies.zero.bucket_size", "1 GB"},
    {"strategies.zero.overlap", "false"},
    {"parallel.context.exchange", "all-to-all"},
    {"parallel.pipeline.transfers", "host"},
};

// Returns `node` with the value added at the dotted path; missing maps on the path are created.
// Returns nothing if `node` already has a value there, or if the path leads through a value that is
// no map, which the reader later refuses.
std::optional<Node> with_default(const Node& node, std::string_view path, const Node& value) {
  if (node.kind() != Node::Kind::map && node.kind() != Node::Kind::null) return std::nullopt;
  const std::string key(path.substr(0, path.find('.')));
  const auto inner = node.find(key);
  const Node map = node.kind() == Node::Kind::map ? node : node.empty_map();
  if (key.size() == path.size()) {
    if (inner) return std::nullopt;
    return map.with(key, value, value.where());
  }
  const auto below =
      with_default(inner.value_or(map.empty_map()), path.substr(key.size() + 1), value);
  if (!below) return std::nullopt;
  return map.with(key, *below, inner ? map.key_location(key) : value.where());
}

// Applies with_default() to each entry of `strategies` whose strategy is the path's first key. An
// entry may be a bare word (`- fsdp`), which becomes a map to hold the value.
std::optional<Node> with_strategy_default(const Node& root, std::string_view path,
                                          const Node& value) {
  const auto list = root.find("strategies");
  if (!list) return std::nullopt;
  const std::string name(path.substr(0, path.find('.')));
  std::vector<Node> entries = list->elements();
  bool changed = false;
  for (Node& entry : entries) {
    const bool bare = entry.kind() == Node::Kind::scalar && entry.scalar() == name;
    if (!bare && !entry.find(name)) continue;
    const auto with = with_default(bare ? entry.empty_map() : entry, path, value);
    if (!with) continue;
    entry = *with;
    changed = true;
  }
  if (!changed) return std::nullopt;
  return root.with("strategies", list->with_elements(entries), root.key_location("strategies"));
}

// Returns `parallel` with each axis as a map. `tensor: 4` is short for `tensor: {size: 4}`, but
// further settings of the axis need the map.
Node spelt_out(const Node& parallel) {
  Node result = parallel;
  for (const auto& [axis, size] : {std::pair{"tensor", "size"},
                                   {"context", "size"},
                                   {"expert", "size"},
                                   {"pipeline", "stages"}}) {
    const auto value = parallel.find(axis);
    if (!value || value->kind() != Node::Kind::scalar) continue;
    result = result.with(axis, value->empty_map().with(size, *value, value->where()),
                         parallel.key_location(axis));
  }
  return result;
}

// Applies with_default() to `parallel` of `owner` (the scenario or an entry of `strategies`). The
// path's first key is an axis; a `parallel` without this axis stays unchanged.
std::optional<Node> with_axis_default(const Node& owner, std::string_view path, const Node& value) {
  const auto parallel = owner.find("parallel");
  if (!parallel || parallel->kind() != Node::Kind::map) return std::nullopt;
  if (!parallel->find(std::string(path.substr(0, path.find('.'))))) return std::nullopt;
  const auto changed = with_default(spelt_out(*parallel), path, value);
  if (!changed) return std::nullopt;
  return owner.with("parallel", *changed, owner.key_location("parallel"));
}

// Applies with_axis_default() to the scenario and to each entry of `strategies`.
std::optional<Node> with_mesh_default(const Node& root, std::string_view path, const Node& value) {
  std::optional<Node> result = with_axis_default(root, path, value);
  const auto list = root.find("strategies");
  if (!list) return result;
  std::vector<Node> entries = list->elements();
  bool changed = false;
  for (Node& entry : entries) {
    const auto with = with_axis_default(entry, path, value);
    if (!with) continue;
    entry = *with;
    changed = true;
  }
  if (!changed) return result;
  return result.value_or(root).with("strategies", list->with_elements(entries),
                                    root.key_location("strategies"));
}

}  // namespace

const Settings& settings_of(Recipe recipe) {
  static const Settings none;
  switch (recipe) {
    case Recipe::none:
      return none;
    case Recipe::pytorch:
      return pytorch;
    case Recipe::torchtitan:
      return torchtitan;
    case Recipe::torchtitan_2026: {
      static const Settings settings = torchtitan_2026();
      return settings;
    }
    case Recipe::megatron:
      return megatron;
    case Recipe::megatron_2024: {
      static const Settings settings = megatron_2024();
      return settings;
    }
    case Recipe::nanotron:
      return nanotron;
    case Recipe::deepspeed:
      return deepspeed;
  }
  return none;
}

// Settings apply one after the other to the same tree. `set` omits settings that the file
// overrides, and settings for a strategy or an axis that the file does not have.
WithRecipe apply_recipe(const Node& root) {
  WithRecipe result{root, {}};
  const auto recipe = root.find("recipe");
  if (!recipe) return result;
  const auto& names = EnumNames<Recipe>::names;
  const auto named = std::find(names.begin(), names.end(), recipe->scalar());
  if (named == names.end()) return result;
  constexpr std::string_view of_strategies = "strategies.", of_meshes = "parallel.";
  for (const auto& [field, text] : settings_of(static_cast<Recipe>(named - names.begin()))) {
    const Node value = Node::plain(std::string(text), recipe->where());
    const bool of_strategy = field.starts_with(of_strategies);
    const auto changed =
        of_strategy ? with_strategy_default(result.root, field.substr(of_strategies.size()), value)
        : field.starts_with(of_meshes)
            ? with_mesh_default(result.root, field.substr(of_meshes.size()), value)
            : with_default(result.root, field, value);
    if (!changed) continue;
    result.root = *changed;
    const std::string_view shown = of_strategy ? field.substr(of_strategies.size()) : field;
    result.set.push_back(std::string(shown) + " " + std::string(text));
  }
  return result;
}

}  // namespace lockstep
