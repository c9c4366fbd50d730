// The layout of JSON with declared fields (fields.hpp): as a JSON Schema for `lockstep schema`, and
// as a table for the generated docs.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "results/json_fields.hpp"

namespace lockstep {

namespace schemas {

// Schema of a value of type T. `figure` gives the minimum of numbers and whether NaN is allowed.
template <class T>
nlohmann::ordered_json schema_of(const Figure& figure);

// Collects the schema of each field of an object, and the names of required fields.
class SchemaWriter : public FigureVisitor<SchemaWriter> {
 public:
  template <class T>
  void visit(const Figure& figure, const T&) {
    nlohmann::ordered_json schema = schema_of<T>(figure);
    schema["description"] = figure.doc;
    properties[figure.name] = std::move(schema);
    if (!figures::is_optional<T> && !figure.none_at_zero) required.emplace_back(figure.name);
  }

  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  std::vector<std::string> required;
};

// Schema of a type with declared fields; it refuses unknown members.
template <class T>
nlohmann::ordered_json object_schema() {
  SchemaWriter writer;
  describe(writer, static_cast<const T&>(T{}));
  return {{"type", "object"},
          {"properties", writer.properties},
          {"additionalProperties", false},
          {"required", writer.required}};
}

// Schema of a number: its minimum, and null if NaN is allowed.
inline nlohmann::ordered_json number(const Figure& figure, const char* type) {
  nlohmann::ordered_json schema;
  if (figure.may_be_nan) {
    schema["type"] = {type, "null"};
  } else {
    schema["type"] = type;
  }
  if (figure.min != no_minimum) schema["minimum"] = figure.min;
  return schema;
}

template <class T>
nlohmann::ordered_json schema_of(const Figure& figure) {
  if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::is_arithmetic_v<T>) {
    return number(figure, std::is_integral_v<T> ? "integer" : "number");
  } else if constexpr (std::is_same_v<T, Interval>) {
    return {
        {"type", "array"}, {"items", number(figure, "number")}, {"minItems", 2}, {"maxItems", 2}};
  } else if constexpr (figures::is_optional<T>) {
    return schema_of<typename T::value_type>(figure);
  } else if constexpr (figures::is_vector<T>) {
    return {{"type", "array"}, {"items", schema_of<typename T::value_type>(figure)}};
  } else if constexpr (std::is_same_v<T, figures::Histogram>) {
    return {{"type", "object"}, {"additionalProperties", {{"type", "integer"}, {"minimum", 0}}}};
  } else if constexpr (std::is_same_v<T, figures::Kinds>) {
    return {{"type", "object"}, {"additionalProperties", number(figure, "number")}};
  } else {
    return object_schema<T>();
  }
}

// Collects one Markdown row per field. The fields of a part follow the part, with dotted names.
class TableWriter : public FigureVisitor<TableWriter> {
 public:
  explicit TableWriter(std::string prefix) : prefix_(std::move(prefix)) {}

  template <class T>
  void visit(const Figure& figure, const T&) {
    const bool always = !figures::is_optional<T> && !figure.none_at_zero;
    text += fmt::format("| `{}{}` | {} | {} |\n", prefix_, figure.name,
                        always ? "always" : "where known", figure.doc);
    nested<T>(prefix_ + figure.name);
  }

  std::string text;

 private:
  template <class T>
  void nested(const std::string& path) {
    if constexpr (figures::is_optional<T>) {
      nested<typename T::value_type>(path);
    } else if constexpr (figures::is_vector<T>) {
      nested<typename T::value_type>(path + "[]");
    } else if constexpr (figures::has_fields<T>) {
      TableWriter inner(path + ".");
      describe(inner, static_cast<const T&>(T{}));
      text += inner.text;
    }
  }
  std::string prefix_;
};

}  // namespace schemas

// JSON Schema (draft-07) of the output of json_of() for a T.
template <class T>
std::string schema_text(const char* title) {
  nlohmann::ordered_json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                                {"title", title}};
  schema.update(schemas::object_schema<T>());
  return schema.dump(2) + "\n";
}

// The fields of a T as a Markdown table; fields of its parts have dotted names.
template <class T>
std::string field_table() {
  schemas::TableWriter writer("");
  describe(writer, static_cast<const T&>(T{}));
  return "| field | there | meaning |\n| --- | --- | --- |\n" + writer.text;
}

}  // namespace lockstep
