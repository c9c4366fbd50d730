// Converts shapes of printed_schemas.yaml to JSON Schema. A shape looks like the JSON that it
// describes, with words for types:
//   {strategy: text, points: [{gpus: count, dollars: number | none}], memory: {"*": any}}
#include "cli/printed_schemas.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/yaml.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// The content of the file, parsed once.
const Node& shapes() {
  static const Node root = Node::parse_text(printed_schemas_text, "printed_schemas.yaml");
  return root;
}

// The schema of a word: "text", "count", "flag", "number" or "any", followed by " | none" if the
// value may be null.
Json word_schema(std::string word) {
  const std::size_t bar = word.find(" | none");
  const bool nullable = bar != std::string::npos;
  word = word.substr(0, bar);
  if (word == "any") return nullable ? Json::object() : Json{{"not", {{"type", "null"}}}};
  const char* type = word == "text"    ? "string"
                     : word == "count" ? "integer"
                     : word == "flag"  ? "boolean"
                                       : "number";
  if (!nullable) return {{"type", type}};
  return {{"type", {type, "null"}}};
}

Json schema_of(const Node& shape);

// The schema of a map with named keys, or with arbitrary keys ("*"). A key that ends in ? may be
// absent.
Json map_schema(const Node& shape) {
  if (const auto any = shape.find("*")) {
    // If the values of a map with arbitrary keys may be null, the map itself may be null.
    const bool nullable = any->scalar().find("none") != std::string::npos;
    Json schema{{"type", nullable ? Json{"object", "null"} : Json("object")},
                {"additionalProperties", schema_of(*any)}};
    return schema;
  }
  Json properties = Json::object(), required = Json::array();
  for (const auto& [key, value] : shape.entries()) {
    const bool optional = key.ends_with('?');
    const std::string name = optional ? key.substr(0, key.size() - 1) : key;
    properties[name] = schema_of(value);
    if (!optional) required.push_back(name);
  }
  return {{"type", "object"},
          {"required", required},
          {"additionalProperties", false},
          {"properties", properties}};
}

// The schema of any shape: a map, a list of one shape, or a word.
Json schema_of(const Node& shape) {
  if (shape.kind() == Node::Kind::map) return map_schema(shape);
  if (shape.kind() == Node::Kind::sequence)
    return {{"type", "array"}, {"items", schema_of(shape.elements().front())}};
  return word_schema(shape.scalar());
}

// Adds a row to the Markdown table for each word of a shape, with its dotted path.
void add_rows(const Node& shape, const std::string& path, std::string& table) {
  if (shape.kind() == Node::Kind::sequence)
    return add_rows(shape.elements().front(), path + "[]", table);
  if (shape.kind() != Node::Kind::map) {
    table +=
        fmt::format("| `{}` | {} |\n", path, shape.scalar().substr(0, shape.scalar().find(" |")));
    return;
  }
  for (const auto& [key, value] : shape.entries())
    add_rows(value, path.empty() ? key : path + "." + key, table);
}

}  // namespace

const std::vector<std::string>& printed_schema_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, shape] : shapes().entries()) list.push_back(name);
    return list;
  }();
  return names;
}

std::string printed_schema_verb(const std::string& name) {
  return shapes().find(name)->find("verb")->scalar();
}

std::string printed_schema(const std::string& name) {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
              {"title", "lockstep " + printed_schema_verb(name)}};
  schema.update(schema_of(*shapes().find(name)->find("is")));
  return schema.dump(2) + "\n";
}

std::string printed_schema_fields(const std::string& name) {
  std::string table = "| field | kind |\n| --- | --- |\n";
  add_rows(*shapes().find(name)->find("is"), "", table);
  return table;
}

}  // namespace lockstep
