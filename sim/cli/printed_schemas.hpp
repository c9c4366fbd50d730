// JSON Schemas of what verbs print, from the shapes in printed_schemas.yaml. Documents of results have
// theirs from the declaration of their fields (results/schema.cpp).
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
