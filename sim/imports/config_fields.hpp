// Typed access to the known fields of a JSON map, such as Hugging Face's config.json. Use it for
// foreign files whose other fields are ignored; scenario files are read by declarations instead
// (core/fields.hpp). JSON is read as YAML, of which it is a part, so that every mistake has its
// place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/yaml.hpp"

namespace lockstep {

// Collects mistakes, and throws them in finish(); until then a wrong field has its fallback value.
// A field that is null counts as absent, as in Python. Unless a comment says otherwise, `absent` is
// the value of an absent field.
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
  // A text that must be there.
  std::string required_word(const std::string& name);

  // Adds a mistake at the field, or at the map if the field is absent.
  void wrong(const std::string& name, const std::string& message, const std::string& hint = "");
  // Throws ConfigError with all mistakes; does nothing if there are none.
  void finish() const;

 private:
  std::optional<Node> present(const std::string& name) const;

  Node root_;
  Diagnostics diagnostics_;
};

}  // namespace lockstep
