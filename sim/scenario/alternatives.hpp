// A scenario that gives a list where one value belongs (`platform: [g5.12xlarge, p4d.24xlarge]`) asks
// its question of every combination: alternatives. Which fields may list is said where they are
// declared (FieldSpec::several).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenario/scenario.hpp"

namespace lockstep {

struct Alternative {
  Scenario scenario;
  // Dotted field and value of what the file lists, in the order of the fields.
  std::vector<std::pair<std::string, std::string>> chosen;
};

inline constexpr std::size_t most_alternatives = 256;  // of one file

// The value that a scenario has for a field that may list alternatives, as the file writes it; "" =
// none.
std::string value_of(const Scenario& scenario, const std::string& field);

// In the order of the lists, the first field outermost; one without a choice where nothing is
// listed. Throws ConfigError: what read_scenario() throws, of the first alternative that is wrong, and
// for a list that is empty or names a value twice, or rows of measurements, which belong to one
// alternative.
std::vector<Alternative> read_alternatives_node(const Node& root, const std::string& file_name);
std::vector<Alternative> read_alternatives_text(std::string_view text,
                                                const std::string& file_name);

}  // namespace lockstep
