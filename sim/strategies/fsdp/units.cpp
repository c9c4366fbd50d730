// Divides a model into FSDP units: chooses the wrapped modules by block or by size, and assigns
// each parameter to the innermost wrapped module around its layer. The size policy is PyTorch's
// size_based_auto_wrap_policy (torch/distributed/fsdp/wrap.py).
#include "strategies/fsdp/units.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_set>

namespace lockstep {
namespace {

// PyTorch's default min_num_params.
constexpr std::int64_t default_min_parameters = 100'000'000;

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
using Modules = std::unordered_set<std::string, TextHash, std::equal_to<>>;

// "a.b" of "a.b.c"; "" of a path without dots.
std::string_view parent(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// The repeated blocks of the model.
Modules block_modules(const TrainingStep& step) {
  Modules modules;
  for (const Layer& layer : step.layers) {
    if (!layer.block.empty()) modules.insert(layer.block);
  }
  return modules;
}

// A node of the module tree; children are in the order of named_children().
struct Module {
  std::string path;
  std::int64_t own = 0;       // elements of its own parameters
  std::vector<int> children;  // indices into the tree
};

// All modules that contain layers with parameters; the root is element 0.
std::vector<Module> module_tree(const TrainingStep& step) {
  std::vector<Module> tree(1);
  std::map<std::string, int, std::less<>> index{{"", 0}};
  const auto node = [&](auto& self, std::string_view path) -> int {
    if (const auto found = index.find(path); found != index.end()) return found->second;
    const int above = self(self, parent(path));
    const int module_index = static_cast<int>(tree.size());
    tree.push_back({std::string(path), 0, {}});
    tree[above].children.push_back(module_index);
    index.emplace(path, module_index);
    return module_index;
  };
  for (const Layer& layer : step.layers) {
    if (layer.wide) continue;  // wide layers are units of their own
    for (const Parameter& parameter : layer.parameters) {
      tree[node(node, layer.name)].own += parameter.count;
    }
  }
  return tree;
}

// Modules that the policy excludes (exclude_wrap_modules). In token models, an nn.ModuleList holds
// the blocks and is never wrapped; image models have an nn.Sequential in its place.
Modules module_lists(const TrainingStep& step) {
  Modules lists;
  if (step.tokens == 0 || step.input_shape.size() != 1) return lists;
  for (const std::string& block : block_modules(step)) lists.insert(std::string(parent(block)));
  return lists;
}

// size_based_auto_wrap_policy over a module tree. Modules in `never` must not become units.
class SizePolicy {
 public:
  SizePolicy(const std::vector<Module>& tree, Modules never, std::int64_t least)
      : tree_(tree), never_(std::move(never)), least_(least) {}

  Modules modules() {
    wrap_children(0);
    return wrapped_;
  }

 private:
  std::int64_t total(int module) const {
    std::int64_t sum = tree_[module].own;
    for (const int child : tree_[module].children) sum += total(child);
    return sum;
  }
  // Both functions return the number of elements of the subtree that are in units.
  std::int64_t wrap_children(int module) {
    if (total(module) < least_) return 0;
    std::int64_t wrapped = 0;
    for (const int child : tree_[module].children) wrapped += wrap(child);
    return wrapped;
  }
  std::int64_t wrap(int module) {
    const std::int64_t wrapped = wrap_children(module);
    const std::int64_t all = total(module);
    if (all < least_ || all - wrapped < least_) return wrapped;
    if (never_.contains(tree_[module].path)) return wrapped;
    wrapped_.insert(tree_[module].path);
    return all;
  }

  const std::vector<Module>& tree_;
  Modules never_;
  std::int64_t least_;
  Modules wrapped_;
};

// The modules that the policy wraps.
Modules chosen_modules(const TrainingStep& step, const WrapOptions& wrap) {
  WrapPolicy policy = wrap.policy;
  if (policy == WrapPolicy::automatic) {
    policy = wrap.min_parameters > 0 ? WrapPolicy::size : WrapPolicy::block;
  }
  if (policy == WrapPolicy::none) return {};
  if (policy == WrapPolicy::block || policy == WrapPolicy::block_and_ends) {
    auto blocks = block_modules(step);
    if (!blocks.empty()) return blocks;
  }
  const std::int64_t least = wrap.min_parameters > 0
                                 ? static_cast<std::int64_t>(wrap.min_parameters)
                                 : default_min_parameters;
  return SizePolicy(module_tree(step), module_lists(step), least).modules();
}

// The modules that the policy wraps, and all wide layers.
Modules wrapped_modules(const TrainingStep& step, const WrapOptions& wrap) {
  Modules modules = chosen_modules(step, wrap);
  for (const Layer& layer : step.layers) {
    if (layer.wide) modules.insert(layer.name);
  }
  return modules;
}

// The innermost wrapped module around a layer; "" = the root.
std::string_view innermost_module(const Layer& layer, const Modules& modules) {
  std::string_view best;
  for (const std::string_view start :
       {std::string_view(layer.name), std::string_view(layer.block)}) {
    for (std::string_view path = start; path.size() > best.size(); path = parent(path)) {
      if (modules.contains(path)) best = path;
    }
  }
  return best;
}

double round_up(double value, double multiple) {
  // Exact: element counts are whole numbers below 2^53.
  const double quotient = std::floor(value / multiple);
  return quotient * multiple == value ? value : (quotient + 1) * multiple;
}

using Units = std::map<std::string, FsdpUnit, std::less<>>;  // by module

// Assigns the layer's parameters to the unit of `module`. Experts are a unit of their own beside
// it, because fewer ranks hold them. In PyTorch, they are a parameter group with a mesh of its own,
// which is gathered and reduced together with the module (torchtitan 0.3.0, distributed/fsdp.py:
// shard_placement_fn).
void add_parameters(const Layer& layer, int index, const std::string& module, Units& units) {
  for (const Parameter& parameter : layer.parameters) {
    FsdpUnit& owner = units[parameter.expert ? module + " experts" : module];
    if (parameter.expert) {
      if (owner.parameters.empty()) {
        owner.module = module + " experts";
        owner.first = index;
      }
      owner.last = index;
      owner.expert = true;
    }
    owner.wide = layer.wide;
    if (owner.layers.empty() || owner.layers.back() != index) owner.layers.push_back(index);
    owner.parameters.push_back(parameter);
  }
}

// Adds layer `index`, which comes before or after all blocks, to the unit of that end. Returns the
// unit's key. Backward begins with the layers after the blocks, so they remain gathered
// (torchtitan, distributed/fsdp.py).
std::string end_unit(const Layer& layer, int index, bool after, Units& units) {
  const std::string key = after ? " head" : " embedding";
  FsdpUnit& unit = units[key];
  if (unit.module.empty()) {
    unit.module = layer.name;
    unit.first = index;
    unit.stays = after;
  }
  unit.last = index;
  return key;
}

// Appends the units of the layers from `begin` to `end` (excluded), which have a root of their own.
// If `ends` is true, the layers before and after the blocks are units, too.
void add_units(const TrainingStep& step, const Modules& modules, bool ends, int begin, int end,
               std::vector<FsdpUnit>& result) {
  // Blocks occupy the layers from first_block to last_block (included).
  Units units;
  int first_block = end, last_block = begin - 1;
  for (int i = begin; i < end; ++i) {
    if (step.layers[i].block.empty()) continue;
    first_block = std::min(first_block, i);
    last_block = i;
  }
  // A part without blocks is either only the embedding, or the head and the loss.
  if (first_block == end && step.layers[end - 1].is_loss) first_block = begin;
  for (int i = begin; i < end; ++i) {
    const Layer& layer = step.layers[i];
    const std::string_view innermost = innermost_module(layer, modules);
    // Each wrapped module around the layer runs from its first to its last layer, including the
    // layers of nested units.
    for (std::string_view path = innermost; !path.empty(); path = parent(path)) {
      const auto found = units.find(path);
      if (found != units.end()) {
        found->second.last = i;
      } else if (modules.contains(path)) {
        FsdpUnit unit;
        unit.module = path;
        unit.first = unit.last = i;
        units.emplace(path, std::move(unit));
      }
    }
    if (layer.parameters.empty()) continue;
    const bool is_end = ends && innermost.empty() && (i < first_block || i > last_block);
    add_parameters(layer, i,
                   is_end ? end_unit(layer, i, i >= first_block, units) : std::string(innermost),
                   units);
  }
  for (auto& [module, unit] : units) {
    if (unit.parameters.empty()) continue;
    // Experts have the hooks of the module around them.
    if (unit.expert) {
      const auto around = units.find(module.substr(0, module.rfind(" experts")));
      if (around != units.end() && !around->first.empty()) {
        unit.first = around->second.first;
        unit.last = around->second.last;
      }
    }
    // The root runs all layers except the loss, which is outside the wrapped model.
    if (module.empty()) {
      unit.root = unit.stays = true;
      unit.first = begin;
      unit.last = end - 1;
      while (unit.last > begin && step.layers[unit.last].is_loss) --unit.last;
    }
    result.push_back(std::move(unit));
  }
}

}  // namespace

double FsdpUnit::elements() const {
  return std::accumulate(parameters.begin(), parameters.end(), 0.0,
                         [](double sum, const Parameter& p) { return sum + p.count; });
}

double FsdpUnit::trainable_elements() const {
  return std::accumulate(
      parameters.begin(), parameters.end(), 0.0,
      [](double sum, const Parameter& p) { return p.trainable ? sum + p.count : sum; });
}

int FsdpUnit::trainable_tensors() const {
  return static_cast<int>(std::count_if(parameters.begin(), parameters.end(),
                                        [](const Parameter& p) { return p.trainable; }));
}

double FsdpUnit::mean_bytes(double element_bytes) const {
  double bytes = 0;
  for (const Parameter& p : parameters) bytes += p.bytes(element_bytes);
  return elements() > 0 ? bytes / elements() : element_bytes;
}

double FsdpUnit::mean_gathered_bytes(double element_bytes) const {
  double bytes = 0;
  for (const Parameter& p : parameters) {
    bytes += p.gathered_bytes > 0 ? p.gathered_bytes * static_cast<double>(p.count)
                                  : p.bytes(element_bytes);
  }
  return elements() > 0 ? bytes / elements() : element_bytes;
}

std::vector<FsdpUnit> make_units(const TrainingStep& step, const WrapOptions& wrap) {
  const Modules modules = wrapped_modules(step, wrap);
  const int layers = static_cast<int>(step.layers.size());
  const bool ends =
      wrap.policy == WrapPolicy::block_and_ends &&
      std::ranges::none_of(step.layers, [](const Layer& layer) { return layer.tied_layer >= 0; }) &&
      std::ranges::any_of(step.layers, [](const Layer& layer) { return !layer.block.empty(); });
  // In a rank of a pipeline, each part of the model begins at a received activation.
  std::vector<FsdpUnit> result;
  for (int first = 0, end = 0; first < layers; first = end) {
    end = first + 1;
    while (end < layers && step.layers[end].boundary != Boundary::receive) ++end;
    add_units(step, modules, ends, first, end, result);
  }
  std::ranges::stable_sort(result, {}, [](const FsdpUnit& unit) {
    return std::pair{unit.first, -unit.last};  // the outer unit first
  });
  return result;
}

UnitLayout flat_layout(const FsdpUnit& unit, int ranks, std::int64_t aligned_elements) {
  double flat = 0;
  for (const Parameter& parameter : unit.parameters) {
    if (aligned_elements > 0) flat = round_up(flat, static_cast<double>(aligned_elements));
    flat += static_cast<double>(parameter.count);
  }
  const double padded = round_up(flat, ranks);
  return {padded, padded / ranks};
}

UnitLayout per_parameter_layout(const FsdpUnit& unit, int ranks) {
  UnitLayout layout;
  for (const Parameter& parameter : unit.parameters) {
    const double rows = parameter.shape.empty() ? 1 : static_cast<double>(parameter.shape.front());
    const double row = rows > 0 ? static_cast<double>(parameter.count) / rows : 0;
    layout.elements += round_up(rows, ranks) * row;
  }
  layout.shard = layout.elements / ranks;
  return layout;
}

}  // namespace lockstep
