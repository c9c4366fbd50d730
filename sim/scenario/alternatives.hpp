// Alternatives: a scenario with a list in place of one value (`platform: [g5.12xlarge,
// p4d.24xlarge]`) stands for every combination. Read scenarios with lists by this header, others by
// scenario.hpp. The declaration of a field says whether it may be a list (FieldSpec::several).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenario/scenario.hpp"

namespace lockstep {

struct Alternative {
  Scenario scenario;
  // Dotted field and value of the listed fields, in the order of the fields.
  std::vector<std::pair<std::string, std::string>> chosen;
};

inline constexpr std::size_t most_alternatives = 256;  // of one file

// The scenario's value of a field that may list alternatives, as the file writes it; "" = none.
std::string value_of(const Scenario& scenario, const std::string& field);

// In the order of the lists, the first field outermost. Without a list there is one alternative
// without a choice. Throws ConfigError as read_scenario() does, for the first wrong alternative.
// Also throws for an empty list, a value that is listed twice, and rows of measurements, which
// belong to one alternative.
std::vector<Alternative> read_alternatives_node(const Node& root, const std::string& file_name);
std::vector<Alternative> read_alternatives_text(std::string_view text,
                                                const std::string& file_name);

}  // namespace lockstep
