// The located YAML tree that readers walk. yaml-cpp stays behind this header; structs declared with
// describe() are read through core/describe.hpp.
//
// Guards against hostile files: size limit 4 MiB, nesting limit 64, at most 100,000 nodes after
// aliases are expanded; binary, empty and multi-document files, duplicate keys and merge keys are
// refused.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// A parsed YAML value that knows where it stands and what it is called. Cheap to copy.
class Node {
 public:
  enum class Kind { null, scalar, sequence, map };

  // Throw ConfigError when the text is no YAML document, or breaks a guard.
  static Node parse_file(const std::string& path);
  static Node parse_text(std::string_view text, const std::string& file_name);

  Node();  // null

  Kind kind() const;
  const std::string& scalar() const;                          // text of a scalar; "" otherwise
  bool quoted() const;                                        // was the scalar quoted?
  std::vector<Node> elements() const;                         // of a sequence; else empty
  std::vector<std::pair<std::string, Node>> entries() const;  // of a map, in file order
  std::optional<Node> find(std::string_view key) const;
  Location key_location(std::string_view key) const;  // where the key stands; where() if absent

  Location where() const;
  const std::string& path() const { return path_; }  // dotted field path from the root
  Diagnostic error(std::string message, std::string hint = "") const;

  struct Impl;
  Node(std::shared_ptr<const Impl> impl, std::string path);

 private:
  std::shared_ptr<const Impl> impl_;
  std::string path_;
};

// What a node holds, for messages: "a list", "a map", "nothing", "'text'".
std::string kind_text(const Node& node);

// Collects diagnostics while a document is read.
class Diagnostics {
 public:
  void add(Diagnostic diagnostic) { list_.push_back(std::move(diagnostic)); }
  bool empty() const { return list_.empty(); }
  const std::vector<Diagnostic>& list() const { return list_; }
  void throw_if_any() const {
    if (!list_.empty()) throw ConfigError(list_);
  }

 private:
  std::vector<Diagnostic> list_;
};

}  // namespace lockstep
