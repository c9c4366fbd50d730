// Alternatives: a scenario with a list in place of one value (`platform: [g5.12xlarge,
// p4d.24xlarge]`) stands for every combination of its lists. Read a scenario by this header where
// lists are welcome; the readers of scenario.hpp refuse them. The declaration of a field says
// whether it may be a list (FieldSpec::several).
//
//   precision: [amp-bf16, fp32]           1: amp-bf16, g5    2: amp-bf16, p4d
//   platform: [g5.12xlarge, p4d.24xlarge] 3: fp32, g5        4: fp32, p4d
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenario/scenario.hpp"

namespace lockstep {

// One combination: the scenario with single values in place of the lists.
struct Alternative {
  Scenario scenario;
  // Dotted field and value of each listed field, e.g. ("batch.global", "256"), in the order in
  // which the fields are declared. Empty if the file has no list.
  std::vector<std::pair<std::string, std::string>> chosen;
};

// Largest number of alternatives of one file, and of values in one list.
inline constexpr std::size_t most_alternatives = 256;

// The scenario's value of a field that may list alternatives, as the file writes it; "" = none.
// `field` is dotted as in Alternative::chosen.
std::string value_of(const Scenario& scenario, const std::string& field);

// Reads all alternatives, in the order of the lists, the first field outermost. Without a list
// there is one alternative without a choice. `file_name` is the origin of relative paths and of
// errors.
//
// Throws ConfigError as read_scenario() does, for the first wrong alternative. Also throws for an
// empty list, a value that is listed twice, more than `most_alternatives`, and rows of measurements
// (`anchor`, `measured`), which belong to one alternative.
std::vector<Alternative> read_alternatives_node(const Node& root, const std::string& file_name);
std::vector<Alternative> read_alternatives_text(std::string_view text,
                                                const std::string& file_name);

}  // namespace lockstep
