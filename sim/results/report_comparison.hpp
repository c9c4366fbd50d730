// The first part of a report of several alternatives: all of them in one table, and two charts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "results/report.hpp"

namespace lockstep {

// Of at least one alternative that has an answer.
std::string comparison_html(const ReportAlternatives& comparison);
// What its charts draw.
nlohmann::ordered_json comparison_data(const ReportAlternatives& comparison);

}  // namespace lockstep
