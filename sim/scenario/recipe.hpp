// Defaults of well-known training codes as defaults of a scenario: `recipe: torchtitan`. Applied
// while a scenario is read. Values of the file take precedence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.hpp"
#include "core/yaml.hpp"

namespace lockstep {

enum class Recipe : std::uint8_t {
  none,
  pytorch,
  torchtitan,  // of 2024
  torchtitan_2026,
  megatron,  // of 2021
  megatron_2024,
  nanotron,
  deepspeed
};
template <>
struct EnumNames<Recipe> {
  static constexpr std::array names{"none",     "pytorch",       "torchtitan", "torchtitan-2026",
                                    "megatron", "megatron-2024", "nanotron",   "deepspeed"};
};

// `field` is a dotted path in a scenario. Below `strategies` the first key is a strategy, and the
// setting applies to every such entry. Below `parallel` the first key is an axis, and meshes
// without this axis are unchanged.
struct RecipeSetting {
  std::string_view field, value;
};
const std::vector<RecipeSetting>& settings_of(Recipe recipe);

struct WithRecipe {
  Node root;
  std::vector<std::string> set;  // "optimizer.name adamw", in the order of the recipe
};

// Returns `root` unchanged if it names no recipe, or an unknown one.
WithRecipe apply_recipe(const Node& root);

}  // namespace lockstep
