// What editors and programs do with a JSON schema: whether it accepts a document.
#pragma once

#include <nlohmann/json.hpp>

#include "core/yaml.hpp"

namespace lockstep {

bool schema_accepts(const nlohmann::json& schema, const Node& document);

// What a JSON Schema (draft-07) finds wrong with a document, one per line; "" if nothing.
std::string schema_faults(const nlohmann::json& schema, const nlohmann::json& document);

}  // namespace lockstep
