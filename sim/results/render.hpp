// Renderings of a record as text, CSV, Markdown and JSON. Use them for every answer of a verb. All
// are deterministic: same record, same bytes. Every number is defined in docs/numbers.md.
#pragma once

#include <string>

#include "results/real_run.hpp"

namespace lockstep {

// The record of a scenario.
std::string render_text(const ResultRecord& record);  // for people
std::string render_json(const ResultRecord& record);  // one document, SI units in the key names
std::string render_csv(const ResultRecord& record);   // one row per prediction, SI units likewise

// The text of real training, with the same names of figures.
std::string render_text(const RealRecord& record);
std::string render_json(const RealRecord& record);
std::string render_csv(const RealRecord& record);
// The runs of such a JSON document. Throws nlohmann::json::exception if the text is no such
// document.
std::vector<RealRun> runs_of_json(const std::string& text);

// JSON Schema (draft-07) of the output of render_json().
std::string result_schema();
std::string training_schema();
// The fields of the same documents as Markdown tables, one row per field.
std::string result_fields();
std::string training_fields();

}  // namespace lockstep
