// Recipes: a scenario may take its defaults from a well-known training code (`recipe: torchtitan`).
// They are put into the YAML tree before a scenario is read; the file's own values take precedence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.hpp"
#include "core/yaml.hpp"

namespace lockstep {

// A training code. Codes whose defaults have changed have one value for each of two years.
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

// One default. `field` is a dotted path in a scenario, `value` a YAML scalar.
// `strategies.NAME.OPTION` applies to every entry of the strategy NAME. `parallel.AXIS.OPTION`
// applies to every mesh that has AXIS.
struct RecipeSetting {
  std::string_view field, value;
};
// The settings of a recipe, in the order in which they apply; empty for Recipe::none. The reference
// stays valid until the program ends.
const std::vector<RecipeSetting>& settings_of(Recipe recipe);

// A scenario's tree with the defaults filled in.
struct WithRecipe {
  Node root;
  // The settings that took effect, e.g. "optimizer.name adamw", in the order of the recipe.
  std::vector<std::string> set;
};

// Fills in the defaults of the recipe named by `root`. Returns `root` unchanged if it names no
// recipe, or an unknown recipe, which the reader reports.
WithRecipe apply_recipe(const Node& root);

}  // namespace lockstep
