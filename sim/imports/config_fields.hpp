// Typed access to the known fields of a JSON map, such as Hugging Face's config.json. Use it for
// foreign files whose other fields are ignored; scenario files are read by declarations instead
// (core/fields.hpp). JSON is a subset of YAML, and the YAML reader reads it, so that each error has
// its line and column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/yaml.hpp"

namespace lockstep {

// Collects errors and throws them in finish(); until then a field with an error has a substitute
// value. A field that is null counts as absent, as in Python. `absent` is the value that an absent
// field has.
class ConfigFields {
 public:
  // Throws ConfigError if `root` is no map.
  explicit ConfigFields(Node root);

  bool has(const std::string& name) const;
  // A whole number from 1 to 2^31 - 1. Without `absent` the field is required.
  std::int64_t size(const std::string& name);
  std::int64_t size(const std::string& name, std::int64_t absent);
  double number(const std::string& name, double absent);
  bool flag(const std::string& name, bool absent);
  std::string word(const std::string& name, const std::string& absent);
  // The elements of a list; empty if the field is absent.
  std::vector<std::string> words(const std::string& name);
  // The number of entries of a map.
  std::int64_t entries(const std::string& name, std::int64_t absent);
  // A text. The field is required.
  std::string required_word(const std::string& name);

  // Adds an error, located at the field, or at the map if the field is absent.
  void wrong(const std::string& name, const std::string& message, const std::string& hint = "");
  // Throws ConfigError with all errors; does nothing if there are none.
  void finish() const;

 private:
  std::optional<Node> present(const std::string& name) const;

  Node root_;
  Diagnostics diagnostics_;
};

}  // namespace lockstep
