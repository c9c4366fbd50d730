// Settings that change a scenario, rather than make a grid of it.
#pragma once

#include <string>
#include <vector>

#include "sweep/setting.hpp"

namespace lockstep {

// Where a setting applies among the entries of `strategies`.
struct EntriesOfSetting {
  std::size_t from = 0;                // steps of its path that lead to the entry
  std::vector<std::size_t> entries{};  // empty = the setting is about the whole scenario
};

// Throws ConfigError when the setting names an entry that is not there.
EntriesOfSetting entries_of(const Setting& setting, const std::vector<Node>& entries);

// A list's elements; a single value is one; none where the map has no such field.
std::vector<Node> elements_of(const Node& map, const char* field);

// The scenario with each "PATH=VALUES" put in, in their order; several values become a list. Measured
// rows are left out: they are of the scenario as it was. Throws ConfigError.
Node with_settings(const Node& scenario, const std::vector<std::string>& settings);

}  // namespace lockstep
