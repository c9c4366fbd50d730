// JSON Schemas of printed answers, made from the shapes in printed_schemas.yaml. `lockstep schema`
// prints them for answers whose fields no describe() function declares. Result documents have such
// functions (results/schema.cpp).
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Content of printed_schemas.yaml, compiled into the program.
extern const char* const printed_schemas_text;

// Names of the answers ("check", "fits", ...) in the order of the file.
const std::vector<std::string>& printed_schema_names();
// The command that prints the answer, such as "diagnose --json and import-metrics --json".
std::string printed_schema_verb(const std::string& name);
// The answer's JSON Schema (draft-07), and a Markdown table of its fields.
// REQUIRES: `name` is one of printed_schema_names().
std::string printed_schema(const std::string& name);
std::string printed_schema_fields(const std::string& name);

}  // namespace lockstep
