// YAML that other programs write, as PyYAML reads it: of a key that stands twice the last one counts,
// and `<<` merges maps. Use Node::parse_text for files of Lockstep's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/yaml.hpp"

namespace lockstep {

// `notes` receives each key that stands twice. Throws ConfigError as Node::parse_text does.
Node parse_foreign_yaml(std::string_view text, const std::string& file_name,
                        std::vector<Diagnostic>& notes);

}  // namespace lockstep
