// Settings that change a single scenario, such as `--set` of `run`; a sweep makes a grid of its
// settings instead. with_settings() applies all settings of a command line.
#pragma once

#include <string>
#include <vector>

#include "sweep/setting.hpp"

namespace lockstep {

// The entries of `strategies` to which a setting applies.
struct EntriesOfSetting {
  std::size_t from = 0;                // number of path steps that lead to the entry
  std::vector<std::size_t> entries{};  // empty = the setting is about the whole scenario
};

// `strategies[i]...` selects one entry, `strategies.NAME...` all entries of that strategy. Throws
// ConfigError if there is no such entry.
EntriesOfSetting entries_of(const Setting& setting, const std::vector<Node>& entries);

// The elements of the map's field; a single value counts as a list of one; empty without such a
// field.
std::vector<Node> elements_of(const Node& map, const char* field);

// Returns the scenario with each "PATH=VALUES" applied, in order. Several values become a list,
// that is, alternatives. Measured rows are removed, because they belong to the unchanged scenario.
// Throws ConfigError.
Node with_settings(const Node& scenario, const std::vector<std::string>& settings);

}  // namespace lockstep
