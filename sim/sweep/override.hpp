// Applies settings to a single scenario, such as `--set` of `run`. A sweep makes a grid of its
// settings instead (grid.hpp).
#pragma once

#include <string>
#include <vector>

#include "sweep/setting.hpp"

namespace lockstep {

// The entries of `strategies` to which a setting applies.
struct EntriesOfSetting {
  std::size_t from = 0;                // number of path steps that lead to the entry
  std::vector<std::size_t> entries{};  // empty = the setting changes the whole scenario
};

// Finds the entries: `strategies[i]...` selects one entry, `strategies.NAME...` selects all entries
// of that strategy. Throws ConfigError if there is no such entry.
EntriesOfSetting entries_of(const Setting& setting, const std::vector<Node>& entries);

// The elements of a field of the map. A single value counts as a list of one. Empty if the field
// does not exist.
std::vector<Node> elements_of(const Node& map, const char* field);

// Returns the scenario after applying each "PATH=VALUES" in order. Several values become a list,
// that is, alternatives; a setting inside a strategy entry takes only one value. If there are
// settings, removes `measured:`, because it belongs to the unchanged scenario. Throws ConfigError
// if a setting is invalid.
Node with_settings(const Node& scenario, const std::vector<std::string>& settings);

}  // namespace lockstep
