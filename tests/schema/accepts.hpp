// Validates a document with a JSON Schema, as editors and programs do. Use it in tests of schemas.
#pragma once

#include <nlohmann/json.hpp>

#include "core/yaml.hpp"

namespace lockstep {

bool schema_accepts(const nlohmann::json& schema, const Node& document);

// Violations of a JSON Schema (draft-07) by a document, one per line; "" if there are none.
std::string schema_faults(const nlohmann::json& schema, const nlohmann::json& document);

}  // namespace lockstep
