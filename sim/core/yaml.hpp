// The located YAML tree that readers walk. Use it for values that are read by hand; read structs
// with describe() through core/describe.hpp. yaml-cpp stays behind this header.
//
// Guards against hostile files: size limit 4 MiB, nesting limit 64, at most 100,000 nodes after
// aliases are expanded, 2000 keys in one map; texts that are not UTF-8, control characters, empty
// and multi-document files, unclosed quotes, duplicate keys and merge keys are refused.
//
// A scalar is its text; the field that it is read into decides its meaning. So `no`, `on`, `0x10`
// and `1e3` are texts in a text field, and values or errors by the field's own rule elsewhere. The
// only truth values are true and false; numbers are decimal; .inf and .nan are refused. Only an
// unquoted ~, null or an empty value is null. Tags (!!str) are ignored.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// A parsed YAML value that knows its place and its name. Cheap to copy.
class Node {
 public:
  enum class Kind { null, scalar, sequence, map };

  // Throw ConfigError if the text is no YAML document, or violates a guard.
  static Node parse_file(const std::string& path);
  static Node parse_text(std::string_view text, const std::string& file_name);

  // An unquoted scalar, as if it stood there.
  static Node plain(std::string scalar, const Location& where);

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
  Node empty_map() const;  // what `{}` would be at this place

  // Copies of a map with one entry added (in its old place, or at the end) or left out, and of a
  // sequence with one element added. The values keep their places in their own texts.
  Node with(const std::string& key, const Node& value, const Location& key_where) const;
  Node without(std::string_view key) const;
  Node with_elements(const std::vector<Node>& elements) const;

  struct Impl;
  Node(std::shared_ptr<const Impl> impl, std::string path);

 private:
  std::shared_ptr<const Impl> impl_;
  std::string path_;
};

// Parses a text that belongs to another program, as PyYAML does: the last of duplicate keys counts,
// and `<<` merges maps. `notes` receives each duplicate key. Throws as Node::parse_text does.
Node parse_foreign_yaml(std::string_view text, const std::string& file_name,
                        std::vector<Diagnostic>& notes);

// The content of a node, for messages: "a list", "a map", "nothing", "'text'" (cut when long).
std::string kind_text(const Node& node);

// Collects diagnostics while a document is read.
class Diagnostics {
 public:
  void add(Diagnostic diagnostic) { list_.push_back(std::move(diagnostic)); }
  bool empty() const { return list_.empty(); }
  const std::vector<Diagnostic>& list() const { return list_; }
  void throw_if_any() const;  // ConfigError, in the order of the text

 private:
  std::vector<Diagnostic> list_;
};

// On one line: "{sharding: full_shard, wrap: {policy: block}}".
std::string flow_text(const Node& node);

// A map with a line for each field, and for each element of a field that is a list of maps.
std::string document_text(const Node& map);

}  // namespace lockstep
