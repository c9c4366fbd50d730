// Renderings of a ResultRecord. All are deterministic: same record, same bytes. Every number is
// defined in docs/numbers.md.
#pragma once

#include <string>

#include "results/record.hpp"

namespace lockstep {

// Version of the JSON layout; raised when a field changes its meaning or goes away.
inline constexpr int result_schema_version = 1;

std::string render_text(const ResultRecord& record);       // for people
std::string render_real_text(const ResultRecord& record);  // the same, when it is_real()
std::string render_json(const ResultRecord& record);  // one document, SI units in the key names
std::string render_csv(
    const ResultRecord& record);  // one row per prediction, SI units in the header

}  // namespace lockstep
