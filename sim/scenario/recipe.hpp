// What the well-known training codes set by default, as defaults of a scenario: `recipe: torchtitan`.
// What the file says itself wins.
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

// `field` is a dotted path in a scenario; below `strategies` the first key is the strategy that it is an
// option of, in every such entry; below `parallel` the first key is an axis, and meshes without it are left
// alone.
struct RecipeSetting {
  std::string_view field, value;
};
const std::vector<RecipeSetting>& settings_of(Recipe recipe);

struct WithRecipe {
  Node root;
  std::vector<std::string> set;  // "optimizer.name adamw", in the order of the recipe
};

// `root` as it stands where it names no recipe, or one that there is not.
WithRecipe apply_recipe(const Node& root);

}  // namespace lockstep
