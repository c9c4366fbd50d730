// What an editor does with a JSON schema: whether it accepts a YAML document.
#pragma once

#include <nlohmann/json.hpp>

#include "core/yaml.hpp"

namespace lockstep {

bool schema_accepts(const nlohmann::json& schema, const Node& document);

}  // namespace lockstep
