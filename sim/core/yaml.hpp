// The YAML tree from which readers take their values; each value knows its file, line and column.
// Structs are read with describe() (core/describe.hpp), and values without a fixed set of fields
// through Node itself. No other header includes yaml-cpp.
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

// A parsed YAML value that knows its place and its field path. It is immutable and cheap to copy,
// because copies share the value.
class Node {
 public:
  enum class Kind { null, scalar, sequence, map };

  // These functions throw ConfigError if the text is no YAML document, or violates a guard.
  static Node parse_file(const std::string& path);
  static Node parse_text(std::string_view text, const std::string& file_name);

  // An unquoted scalar, treated as if its text were at `where`.
  static Node plain(std::string scalar, const Location& where);

  // Null, without a place.
  Node();

  Kind kind() const;
  const std::string& scalar() const;   // text of a scalar; "" otherwise
  bool quoted() const;                 // whether the scalar was quoted
  std::vector<Node> elements() const;  // of a sequence; empty otherwise
  // of a map, in file order; empty otherwise
  std::vector<std::pair<std::string, Node>> entries() const;
  std::optional<Node> find(std::string_view key) const;
  Location key_location(std::string_view key) const;  // place of the key; where() if absent

  Location where() const;
  const std::string& path() const { return path_; }  // "strategies[1].fsdp"; "" for the root
  // A mistake at this value's place and path, to be added to Diagnostics.
  Diagnostic error(std::string message, std::string hint = "") const;
  // The map `{}` at this place.
  Node empty_map() const;

  // Changed copies, in which all values have their original places. with() sets an entry of a map,
  // at its old position or at the end. without() omits an entry. with_elements() is a list of
  // exactly these elements.
  // REQUIRES: this is not a default-constructed Node.
  Node with(const std::string& key, const Node& value, const Location& key_where) const;
  Node without(std::string_view key) const;
  Node with_elements(const std::vector<Node>& elements) const;

  struct Impl;
  Node(std::shared_ptr<const Impl> impl, std::string path);

 private:
  std::shared_ptr<const Impl> impl_;
  std::string path_;
};

// Parses a text that belongs to another program, in the same manner as PyYAML: the last of
// duplicate keys counts, and `<<` merges maps. `notes` receives each duplicate key. Throws as
// Node::parse_text does.
Node parse_foreign_yaml(std::string_view text, const std::string& file_name,
                        std::vector<Diagnostic>& notes);

// The content of a node, for messages: "a list", "a map", "nothing", "'text'" (cut if long).
std::string kind_text(const Node& node);

// Collects mistakes while a document is read, so that a user sees all mistakes at once.
class Diagnostics {
 public:
  void add(Diagnostic diagnostic) { list_.push_back(std::move(diagnostic)); }
  bool empty() const { return list_.empty(); }
  const std::vector<Diagnostic>& list() const { return list_; }
  // Throws ConfigError with all mistakes, in the order of the text, if there are any.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> list_;
};

// The value as YAML on one line: "{sharding: full_shard, wrap: {policy: block}}". The text reads
// back to an equal value.
std::string flow_text(const Node& node);

// A document with one line for each field of `map`. A field that is a list of maps has one line for
// each element:
//   gpus: [1, 2, 4]
//   strategies:
//     - {fsdp: {sharding: full_shard}}
std::string document_text(const Node& map);

}  // namespace lockstep
