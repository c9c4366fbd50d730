// Typed access to the known fields of a JSON map, such as Hugging Face's config.json. Use it for
// foreign files whose other fields are ignored. JSON is read as YAML, of which it is a part, so
// that every mistake has its place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/yaml.hpp"

namespace lockstep {

// Collects mistakes, and throws them in finish(); until then a wrong field has its fallback value.
// A field that is null counts as absent, as in Python.
class ConfigFields {
 public:
  explicit ConfigFields(Node root);

  bool has(const std::string& name) const;
  std::int64_t size(const std::string& name);  // required; 1 to 2^31 - 1
  std::int64_t size(const std::string& name, std::int64_t absent);
  double number(const std::string& name, double absent);
  bool flag(const std::string& name, bool absent);
  std::string word(const std::string& name, const std::string& absent);
  std::vector<std::string> words(const std::string& name);
  std::int64_t entries(const std::string& name, std::int64_t absent);  // of a map
  std::string required_word(const std::string& name);

  void wrong(const std::string& name, const std::string& message, const std::string& hint = "");
  void finish() const;  // throws ConfigError with all that is wrong

 private:
  std::optional<Node> present(const std::string& name) const;

  Node root_;
  Diagnostics diagnostics_;
};

}  // namespace lockstep
