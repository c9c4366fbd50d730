// Alternatives: a scenario with a list in place of one value (`platform: [g5.12xlarge,
// p4d.24xlarge]`) stands for every combination of its lists. Commands that accept such lists read a
// scenario by this header; the readers of scenario.hpp refuse lists. The declaration of a field
// says whether it may be a list (FieldSpec::several).
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

// Largest number of alternatives of one file; also the largest number of values in one list.
inline constexpr std::size_t most_alternatives = 256;

// The scenario's value of a field that may list alternatives, in the spelling of the file; "" if
// the field has no value. `field` is dotted as in Alternative::chosen.
std::string value_of(const Scenario& scenario, const std::string& field);

// Reads all alternatives. Values of the first listed field change slowest. A file without a list
// has one alternative, with empty `chosen`. `file_name` is the origin of relative paths and of
// errors.
//
// Throws the ConfigError of read_scenario() for the first alternative with an error. Also throws
// for an empty list, a listed value that is no scalar or is listed twice, more than
// `most_alternatives`, and rows of measurements (`anchor`, `measured`) beside lists, because such
// rows belong to one alternative.
std::vector<Alternative> read_alternatives_node(const Node& root, const std::string& file_name);
std::vector<Alternative> read_alternatives_text(std::string_view text,
                                                const std::string& file_name);

}  // namespace lockstep
