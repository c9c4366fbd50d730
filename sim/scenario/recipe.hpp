// Recipes: defaults of well-known training codes as defaults of a scenario (`recipe: torchtitan`).
// Applied to the YAML tree while a scenario is read; the file's own values take precedence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.hpp"
#include "core/yaml.hpp"

namespace lockstep {

// A training code; codes whose defaults have changed are there for two times.
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

// One default. `field` is a dotted path in a scenario. Below `strategies` the first key is a
// strategy, and the setting applies to every such entry. Below `parallel` the first key is an axis,
// and meshes without this axis are unchanged. `value` is a YAML scalar.
struct RecipeSetting {
  std::string_view field, value;
};
// The settings of a recipe, in the order in which they apply; empty for Recipe::none. The reference
// stays valid.
const std::vector<RecipeSetting>& settings_of(Recipe recipe);

// A scenario's tree with the defaults filled in.
struct WithRecipe {
  Node root;
  // The settings that took effect, e.g. "optimizer.name adamw", in the order of the recipe.
  std::vector<std::string> set;
};

// Fills in the defaults of the recipe named by `root`. Returns `root` unchanged if it names none,
// or an unknown one, which the reader reports.
WithRecipe apply_recipe(const Node& root);

}  // namespace lockstep
