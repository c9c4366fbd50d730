// Files of other programs as trees of located values: JSON, YAML, TOML. What they mean is in keys.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/errors.hpp"
#include "core/yaml.hpp"

namespace lockstep {

struct ConfigDocument {
  Node root;                      // a map
  std::vector<Diagnostic> notes;  // keys that stand twice: the last one counts
};

// By the name's ending (.json, .yaml, .yml, .toml), else by the text. JSON must be legal JSON: tabs
// may indent it, bare words are refused. YAML is read as PyYAML reads it: of a key that stands twice
// the last counts, `<<` merges. Throws ConfigError with the place; guards as in core/yaml.hpp.
ConfigDocument config_document(const std::string& path);
ConfigDocument config_document(const std::string& text, const std::string& path);

}  // namespace lockstep
