// JSON Schemas of printed answers, from the shapes in printed_schemas.yaml. Use them for answers
// without a describe() declaration; documents of results get their schemas from it
// (results/schema.cpp).
#pragma once

#include <string>
#include <vector>

namespace lockstep {

extern const char* const printed_schemas_text;  // the file, compiled in

// "check", "fits", ...: in the order of the file.
const std::vector<std::string>& printed_schema_names();
// "diagnose --json and import-metrics --json".
std::string printed_schema_verb(const std::string& name);
// JSON Schema (draft-07), and a Markdown table of the fields.
std::string printed_schema(const std::string& name);
std::string printed_schema_fields(const std::string& name);

}  // namespace lockstep
