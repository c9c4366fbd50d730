// Renderings of a record as text, CSV and JSON, for the commands whose answer is a record, for
// example `run` and `train`. All are deterministic: the same record gives the same bytes.
// docs/numbers.md defines every number.
#pragma once

#include <string>

#include "results/real_run.hpp"

namespace lockstep {

// The record of a scenario.
std::string render_text(const ResultRecord& record);  // for people
std::string render_json(const ResultRecord& record);  // key names contain the unit
std::string render_csv(const ResultRecord& record);   // one row per prediction

// Renderings of real training, with the same names for the same values.
std::string render_text(const RealRecord& record);
std::string render_json(const RealRecord& record);
std::string render_csv(const RealRecord& record);
// The runs in a document of render_json(RealRecord). Throws nlohmann::json::exception if the text
// is another document.
std::vector<RealRun> runs_of_json(const std::string& text);

// JSON Schema (draft-07) of the output of render_json().
std::string result_schema();
std::string training_schema();
// The fields of the same documents as Markdown tables, one row per field.
std::string result_fields();
std::string training_fields();

}  // namespace lockstep
