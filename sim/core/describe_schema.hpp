// Part of core/describe.hpp: the JSON Schema (draft-07) of a described type. Include
// core/describe.hpp, which offers it as json_schema(), instead of this file.
//
// A schema holds types, units, bounds and required fields. Rules between fields are not part of a
// schema, so a file that satisfies the schema may still be refused by the reader.
#pragma once

#include <nlohmann/json.hpp>

#include "core/describe_emit.hpp"

namespace lockstep::fields {

using Json = nlohmann::ordered_json;

template <class T>
Json schema_of(const FieldSpec& spec);

// The default as a file would state it; null if it is neither a scalar nor a list of scalars.
template <class T>
Json default_of(const T& value, const FieldSpec& spec) {
  if constexpr (std::is_same_v<T, bool> || is_integer<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, double>) {
    if (spec.unit == Dimension::none) return value;
    return quantity_text(value, spec.unit);
  } else if constexpr (std::is_enum_v<T>) {
    return enum_name(value);
  } else if constexpr (is_scalar_list<T>) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(default_of(item, spec));
    return list;
  } else {
    return nullptr;
  }
}

// Visitor that collects the schemas of one struct's fields; object() joins them.
class SchemaWriter : public FieldVisitor<SchemaWriter> {
 public:
  template <class T>
  void visit(const FieldSpec& spec, T& value) {
    Json schema = schema_of<T>(spec);
    if (spec.several) {
      const Json list{{"type", "array"}, {"items", schema}, {"minItems", 1}, {"uniqueItems", true}};
      schema = Json{{"anyOf", {schema, list}}};
    }
    std::string description = spec.doc;
    if (spec.unit != Dimension::none) {
      description += " Written as " + dimension_help(spec.unit, true) + ".";
    }
    const std::string bounds = bounds_text(spec);
    if (!bounds.empty()) description += " Allowed: " + bounds + ".";
    schema["description"] = description;
    const Json fallback = default_of(value, spec);
    if (!spec.required && !fallback.is_null()) schema["default"] = fallback;
    properties[spec.name] = std::move(schema);
    if (spec.required) required.push_back(spec.name);
  }
  // Each alternative is a key of the map, with options or without (null); exactly one must be
  // there.
  template <class Variant>
  void visit_alternative(const FieldSpec&, Variant&) {
    const auto names = names_of<Variant>();
    for (std::size_t i = 0; i < names.size(); ++i) {
      with_alternative<Variant>(i, [&](auto alternative) {
        Json schema = schema_of<decltype(alternative)>({});
        properties[names[i]] = Json{{"anyOf", {schema, {{"type", "null"}}}}};
      });
      one_of.push_back({{"required", {names[i]}}});
    }
    words = names;
  }

  // The struct's schema: an object without unknown keys, or a bare word if it has alternatives.
  Json object() const {
    Json schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    if (!required.empty()) schema["required"] = required;
    if (one_of.empty()) return schema;
    schema["oneOf"] = one_of;
    return Json{{"anyOf", {{{"type", "string"}, {"enum", words}}, schema}}};
  }

  // Schemas by field name, names of required fields, one `required` for each alternative, and the
  // alternatives' names.
  Json properties = Json::object();
  std::vector<std::string> required;
  Json one_of = Json::array();
  std::vector<std::string> words;
};

// The schema of a T with the bounds of `spec`.
template <class T>
Json schema_of(const FieldSpec& spec) {
  if constexpr (std::is_same_v<T, Node>) {
    return Json::object();
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (is_integer<T> || std::is_same_v<T, double>) {
    // A plain number is a JSON number; a quantity with a unit is a string of a given form.
    const bool bare = spec.unit == Dimension::none || spec.unit == Dimension::count ||
                      spec.unit == Dimension::fraction;
    Json number{{"type", is_integer<T> ? "integer" : "number"}};
    if (std::isfinite(spec.min)) number["minimum"] = spec.min;
    if (std::isfinite(spec.max)) number["maximum"] = spec.max;
    // Quoted, or with an exponent, a number may reach the schema as a text.
    Json text{{"type", "string"}, {"pattern", dimension_pattern(spec.unit, spec.min < 0)}};
    if (!bare) return text;
    return {{"anyOf", {number, text}}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", {"string", "number", "boolean"}}};  // an unquoted 2024 or true is a text too
  } else if constexpr (std::is_enum_v<T>) {
    return {{"type", "string"}, {"enum", names_of<T>()}};
  } else if constexpr (Kind<T>::optional) {
    return schema_of<typename Kind<T>::Element>(spec);
  } else if constexpr (Kind<T>::vector) {
    const Json element = schema_of<typename Kind<T>::Element>(spec);
    Json list{{"type", "array"}, {"items", element}, {"minItems", spec.min_items}};
    if (spec.max_items < 100'000) list["maxItems"] = spec.max_items;
    if (spec.single) return {{"anyOf", {list, element}}};
    if (spec.or_empty) return {{"anyOf", {list, {{"type", "array"}, {"maxItems", 0}}}}};
    return list;
  } else if constexpr (Kind<T>::map) {
    return {{"type", "object"},
            {"additionalProperties", schema_of<typename Kind<T>::Element>(spec)}};
  } else if constexpr (Kind<T>::variant) {
    const auto names = names_of<T>();
    Json any = Json::array({{{"type", "string"}, {"enum", names}}});
    for (std::size_t i = 0; i < names.size(); ++i) {
      with_alternative<T>(i, [&](auto alternative) {
        Json schema = schema_of<decltype(alternative)>({});
        any.push_back({{"type", "object"},
                       {"properties", {{names[i], {{"anyOf", {schema, {{"type", "null"}}}}}}}},
                       {"required", {names[i]}},
                       {"additionalProperties", false}});
      });
    }
    return {{"anyOf", any}};
  } else {
    SchemaWriter writer;
    T value{};
    describe(writer, value);
    if (!spec.single) return writer.object();
    return {{"anyOf", {writer.object(), writer.properties.front()}}};
  }
}

}  // namespace lockstep::fields
