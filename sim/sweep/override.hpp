// Settings that change a scenario instead of making a grid of it. Used for `--set` of verbs other
// than `sweep`.
#pragma once

#include <string>
#include <vector>

#include "sweep/setting.hpp"

namespace lockstep {

// The entries of `strategies` to which a setting applies.
struct EntriesOfSetting {
  std::size_t from = 0;                // steps of its path that lead to the entry
  std::vector<std::size_t> entries{};  // empty = the setting is about the whole scenario
};

// Throws ConfigError if the setting names a missing entry.
EntriesOfSetting entries_of(const Setting& setting, const std::vector<Node>& entries);

// A list's elements; a single value counts as one element; empty if the map has no such field.
std::vector<Node> elements_of(const Node& map, const char* field);

// The scenario with each "PATH=VALUES" applied, in order; several values become a list. Measured
// rows are left out: they belong to the unchanged scenario. Throws ConfigError.
Node with_settings(const Node& scenario, const std::vector<std::string>& settings);

}  // namespace lockstep
