// Defaults of training codes by recipe, put in where a file is silent.
#include "scenario/recipe.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

using Settings = std::vector<RecipeSetting>;

// The training loops of PyTorch's own examples, which set nothing: TF32 in convolutions only, and
// the foreach form of the optimizer, for parameters on a GPU.
const Settings pytorch{
    {"precision", "torch-fp32"},
    {"optimizer.implementation", "foreach"},
};
// pytorch/torchtitan: train_configs/llama3_8b.toml (clipping at 1, selective checkpointing by `op`)
// and the defaults of its job configuration (bf16 parameters, fp32 reduction, fused AdamW, decay
// 0.1).
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
// (config/configs.py, trainer.py); torch.compile stays off by default.
Settings torchtitan_2026() {
  Settings settings = torchtitan;
  settings.push_back({"cuda_graphs", "true"});
  settings.push_back(
      {"framework.expandable_segments", "true"});  // run_train.sh: PYTORCH_CUDA_ALLOC_CONF
  return settings;
}
// NVIDIA/Megatron-LM: training/arguments.py with --bf16 (gradients accumulated and reduced in fp32
// then; Apex's fused Adam with decoupled decay 0.01; clipping at 1).
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
// Megatron-core since 0.8 takes Transformer Engine's layers (--transformer-impl
// transformer_engine), whose attention is cuDNN's on Hopper, and fuses gated activations, rotary
// embeddings and dropouts with their sums.
Settings megatron_2024() {
  Settings settings = megatron;
  std::erase_if(settings, [](const RecipeSetting& s) { return s.field == "framework.name"; });
  settings.push_back({"fused_kernels", "true"});
  settings.push_back({"framework.flash_attention", "3"});
  return settings;
}
// huggingface/nanotron: examples/config_tiny_llama.yaml.
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
// of 5e8 elements, no overlap at stages 1 and 2); its own fused Adam.
const Settings deepspeed{
    {"precision", "master-bf16"},
    {"optimizer.name", "adamw"},
    {"optimizer.implementation", "fused"},
    {"strategies.zero.bucket_size", "1 GB"},
    {"strategies.zero.overlap", "false"},
    {"parallel.context.exchange", "all-to-all"},
    {"parallel.pipeline.transfers", "host"},
};

// `node` with the value at the path. Nothing if `node` states the value itself, or holds a value
// that is no map, which the reader must refuse.
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

// The same for each entry of `strategies` that is of the strategy which the path names.
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

// A number that stands for an axis of a mesh, as the map that it is short for.
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

// `path` below `parallel`: of a mesh that has that axis.
std::optional<Node> with_axis_default(const Node& owner, std::string_view path, const Node& value) {
  const auto parallel = owner.find("parallel");
  if (!parallel || parallel->kind() != Node::Kind::map) return std::nullopt;
  if (!parallel->find(std::string(path.substr(0, path.find('.'))))) return std::nullopt;
  const auto changed = with_default(spelt_out(*parallel), path, value);
  if (!changed) return std::nullopt;
  return owner.with("parallel", *changed, owner.key_location("parallel"));
}

// The same for the meshes of the scenario and of its strategies.
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
