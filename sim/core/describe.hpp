// What follows from a describe() declaration (core/fields.hpp): reading YAML with located errors,
// the expanded YAML export, the JSON schema and the docs table. Include it in the .cpp that owns
// the type:
//
//   Device load(const std::string& path) { return read_file<Device>(path); }   // throws
//   ConfigError std::string text = emit_yaml(device);            // reads back to an equal value
//   nlohmann::json schema = json_schema<Device>("device file");
//   std::string table = markdown_fields<Device>();
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/fields.hpp"
#include "core/yaml.hpp"

namespace lockstep {

namespace fields {

template <class T>
struct Kind {
  static constexpr bool vector = false, optional = false, map = false, variant = false;
};
template <class T>
struct Kind<std::vector<T>> : Kind<void> {
  static constexpr bool vector = true;
  using Element = T;
};
template <class T>
struct Kind<std::optional<T>> : Kind<void> {
  static constexpr bool optional = true;
  using Element = T;
};
template <class T>
struct Kind<std::map<std::string, T>> : Kind<void> {
  static constexpr bool map = true;
  using Element = T;
};
template <class... T>
struct Kind<std::variant<T...>> : Kind<void> {
  static constexpr bool variant = true;
};

template <class T>
constexpr bool is_integer = std::is_same_v<T, int> || std::is_same_v<T, std::int64_t>;

template <class T>
std::vector<std::string> names_of() {
  const auto& names = []() -> const auto& {
    if constexpr (std::is_enum_v<T>) {
      return EnumNames<T>::names;
    } else {
      return AlternativeNames<T>::names;
    }
  }
  ();
  return {names.begin(), names.end()};
}

// Calls f(default-constructed alternative) for the i-th alternative.
template <class Variant, class F>
void with_alternative(std::size_t index, F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (void)((I == index ? (f(std::variant_alternative_t<I, Variant>{}), true) : false) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>{});
}

inline std::string bounds_text(const FieldSpec& spec) {
  const auto text = [&](double value) {
    return spec.unit == Dimension::none || spec.unit == Dimension::count ||
                   spec.unit == Dimension::fraction
               ? fmt::format("{}", value)
               : quantity_text(value, spec.unit);
  };
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  if (low && high) return fmt::format("{} to {}", text(spec.min), text(spec.max));
  if (low) return fmt::format("at least {}", text(spec.min));
  if (high) return fmt::format("at most {}", text(spec.max));
  return "";
}

// -------------------------------------------------------------------------------------------
// reading

template <class T>
void read_value(const Node& node, T& value, const FieldSpec& spec, Diagnostics& diagnostics);

class Reader {
 public:
  Reader(const Node& node, Diagnostics& diagnostics) : node_(node), diagnostics_(diagnostics) {}

  template <class T>
  void field(const FieldSpec& spec, T& value) {
    known_.emplace_back(spec.name);
    const auto child = node_.find(spec.name);
    if (!child) {
      if (spec.required && !bare_word_) missing(spec);
      return;
    }
    if constexpr (!std::is_same_v<T, Node>) {
      if (child->kind() == Node::Kind::null && !Kind<T>::optional) {
        Diagnostic diagnostic = child->error("has no value");
        diagnostic.where = node_.key_location(spec.name);
        diagnostics_.add(std::move(diagnostic));
        return;
      }
    }
    read_value(*child, value, spec, diagnostics_);
  }

  template <class Variant>
  void alternative(const FieldSpec& spec, Variant& value) {
    const auto names = names_of<Variant>();
    known_.insert(known_.end(), names.begin(), names.end());
    if (node_.kind() == Node::Kind::scalar) {
      bare_word_ = true;
      read_value(node_, value, spec, diagnostics_);
      return;
    }
    std::optional<std::size_t> chosen;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto child = node_.find(names[i]);
      if (!child) continue;
      if (chosen) {
        diagnostics_.add(child->error(
            fmt::format("'{}' and '{}' exclude each other", names[*chosen], names[i])));
        continue;
      }
      chosen = i;
      read_alternative(*child, i, value);
    }
    if (!chosen && node_.kind() == Node::Kind::map) {
      diagnostics_.add(node_.error(fmt::format("needs one of: {}", fmt::join(names, ", "))));
    }
  }

  void location(Location& where) { where = node_.where(); }
  void location(const char* name, Location& where) {
    const auto child = node_.find(name);
    where = child ? child->where() : node_.where();
  }

  template <class F>
  void check(F&& f) {
    if (node_.kind() != Node::Kind::map || !diagnostics_.empty()) return;
    f([&](const std::string& name, std::string message, std::string hint = "") {
      const auto child = name.empty() ? std::nullopt : node_.find(name);
      Diagnostic diagnostic = child ? child->error(std::move(message), std::move(hint))
                                    : node_.error(std::move(message), std::move(hint));
      if (!child && !name.empty()) {
        diagnostic.field = node_.path().empty() ? name : node_.path() + "." + name;
      }
      diagnostics_.add(std::move(diagnostic));
    });
  }

  // After describe(): is this a map at all, and does it hold keys nobody asked for?
  void finish() {
    if (node_.kind() != Node::Kind::map) {
      if (!bare_word_) {
        diagnostics_.add(node_.error(fmt::format("must be a map, not {}", kind_text(node_)),
                                     fmt::format("keys: {}", fmt::join(known_, ", "))));
      }
      return;
    }
    for (const auto& [key, child] : node_.entries()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      Diagnostic diagnostic = child.error("unknown key", allowed_hint(key, known_));
      diagnostic.where = node_.key_location(key);
      diagnostics_.add(std::move(diagnostic));
    }
  }

  template <class Variant>
  void read_alternative(const Node& child, std::size_t index, Variant& value) {
    with_alternative<Variant>(index, [&](auto alternative) {
      if (child.kind() != Node::Kind::null) read_value(child, alternative, {}, diagnostics_);
      value = std::move(alternative);
    });
  }

 private:
  void missing(const FieldSpec& spec) {
    if (node_.kind() != Node::Kind::map) return;  // finish() says what is wrong
    Diagnostic diagnostic = node_.error("missing");
    diagnostic.field = node_.path().empty() ? spec.name : node_.path() + "." + spec.name;
    diagnostic.hint = fmt::format("required: {}", spec.doc);
    diagnostics_.add(std::move(diagnostic));
  }

  const Node& node_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
  bool bare_word_ = false;
};

template <class T>
void check_range(const Node& node, T value, const FieldSpec& spec, Diagnostics& diagnostics) {
  const auto number = static_cast<double>(value);
  if (number >= spec.min && number <= spec.max) return;
  diagnostics.add(node.error(fmt::format("{} is out of range", kind_text(node)),
                             "allowed: " + bounds_text(spec)));
}

template <class T>
void read_number(const Node& node, T& value, const FieldSpec& spec, Diagnostics& diagnostics) {
  double number = 0;
  try {
    number = parse_quantity(node.scalar(), spec.unit);
  } catch (const UnitError& error) {
    diagnostics.add(node.error(error.what()));
    return;
  }
  if constexpr (is_integer<T>) {
    if (number != std::floor(number) || std::abs(number) > 9.007199254740992e15) {
      diagnostics.add(node.error(fmt::format("{} is not a whole number", kind_text(node))));
      return;
    }
    if (number < static_cast<double>(std::numeric_limits<T>::min()) ||
        number > static_cast<double>(std::numeric_limits<T>::max())) {
      diagnostics.add(node.error(fmt::format("{} is out of range", kind_text(node))));
      return;
    }
  }
  check_range(node, number, spec, diagnostics);
  value = static_cast<T>(number);
}

inline bool expect_scalar(const Node& node, const std::string& what, Diagnostics& diagnostics) {
  if (node.kind() == Node::Kind::scalar) return true;
  diagnostics.add(node.error(fmt::format("must be {}, not {}", what, kind_text(node))));
  return false;
}

inline void check_count(const Node& node, std::size_t count, const FieldSpec& spec,
                        Diagnostics& diagnostics) {
  if (count >= spec.min_items && count <= spec.max_items) return;
  diagnostics.add(
      node.error(fmt::format("has {} elements", count),
                 spec.max_items >= 100'000
                     ? fmt::format("at least {} needed", spec.min_items)
                     : fmt::format("allowed: {} to {}", spec.min_items, spec.max_items)));
}

template <class T>
void read_value(const Node& node, T& value, const FieldSpec& spec, Diagnostics& diagnostics) {
  if constexpr (std::is_same_v<T, Node>) {
    value = node;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!expect_scalar(node, "true or false", diagnostics)) return;
    if (node.scalar() == "true" || node.scalar() == "false") {
      value = node.scalar() == "true";
    } else {
      diagnostics.add(node.error(fmt::format("{} is neither true nor false", kind_text(node)),
                                 "allowed: true, false"));
    }
  } else if constexpr (is_integer<T> || std::is_same_v<T, double>) {
    const char* what = is_integer<T> ? "a whole number" : "a number";
    if (expect_scalar(node, spec.unit == Dimension::none ? what : dimension_help(spec.unit),
                      diagnostics)) {
      read_number(node, value, spec, diagnostics);
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (expect_scalar(node, "a text", diagnostics)) value = node.scalar();
  } else if constexpr (std::is_enum_v<T>) {
    const auto names = names_of<T>();
    if (!expect_scalar(node, fmt::format("one of {}", fmt::join(names, ", ")), diagnostics)) return;
    const auto found = std::find(names.begin(), names.end(), node.scalar());
    if (found == names.end()) {
      diagnostics.add(node.error(fmt::format("unknown value {}", kind_text(node)),
                                 allowed_hint(node.scalar(), names)));
    } else {
      value = static_cast<T>(found - names.begin());
    }
  } else if constexpr (Kind<T>::optional) {
    if (node.kind() == Node::Kind::null) {
      value.reset();
      return;
    }
    typename Kind<T>::Element inner{};
    read_value(node, inner, spec, diagnostics);
    value = std::move(inner);
  } else if constexpr (Kind<T>::vector) {
    std::vector<Node> elements = node.elements();
    if (node.kind() != Node::Kind::sequence) {
      if (!spec.single || node.kind() == Node::Kind::null) {
        diagnostics.add(node.error(fmt::format("must be a list, not {}", kind_text(node)),
                                   "write [a, b] or one '- a' per line"));
        return;
      }
      elements = {node};
    }
    check_count(node, elements.size(), spec, diagnostics);
    T list;
    for (const auto& element : elements) {
      typename Kind<T>::Element item{};
      read_value(element, item, spec, diagnostics);
      list.push_back(std::move(item));
    }
    value = std::move(list);
  } else if constexpr (Kind<T>::map) {
    if (node.kind() != Node::Kind::map) {
      diagnostics.add(node.error(fmt::format("must be a map, not {}", kind_text(node))));
      return;
    }
    check_count(node, node.entries().size(), spec, diagnostics);
    T map;
    for (const auto& [key, child] : node.entries()) {
      typename Kind<T>::Element item{};
      read_value(child, item, spec, diagnostics);
      map.emplace(key, std::move(item));
    }
    value = std::move(map);
  } else if constexpr (Kind<T>::variant) {
    const auto names = names_of<T>();
    Reader reader(node, diagnostics);
    const auto entries = node.entries();
    const bool bare = node.kind() == Node::Kind::scalar;
    if (!bare && entries.size() != 1) {
      diagnostics.add(node.error(fmt::format("must be one of {}, with options as `name: {{...}}`",
                                             fmt::join(names, ", "))));
      return;
    }
    const std::string& name = bare ? node.scalar() : entries.front().first;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      Diagnostic diagnostic = node.error(fmt::format("unknown name '{}'", name.substr(0, 60)),
                                         allowed_hint(name, names));
      diagnostics.add(std::move(diagnostic));
      return;
    }
    reader.read_alternative(bare ? Node() : entries.front().second,
                            static_cast<std::size_t>(found - names.begin()), value);
  } else {
    Reader reader(node, diagnostics);
    describe(reader, value);
    reader.finish();
  }
}

// -------------------------------------------------------------------------------------------
// writing

std::string yaml_text(const std::string& text);  // quoted where YAML needs it
inline std::string indent(int depth) {
  return std::string(static_cast<std::size_t>(2 * depth), ' ');
}

template <class T>
std::string emit_value(T& value, const FieldSpec& spec, int depth);

// Writes the fields of one struct, one per line, each line starting at `depth`.
class Emitter {
 public:
  explicit Emitter(int depth) : depth_(depth) {}

  template <class T>
  void field(const FieldSpec& spec, T& value) {
    if constexpr (Kind<T>::optional) {
      if (!value) return;
      line(spec.name, emit_value(*value, spec, depth_ + 1));
    } else if constexpr (!std::is_same_v<T, Node>) {
      line(spec.name, emit_value(value, spec, depth_ + 1));
    }
  }
  template <class Variant>
  void alternative(const FieldSpec& spec, Variant& value) {
    const auto names = names_of<Variant>();
    std::visit(
        [&](auto& chosen) { line(names[value.index()], emit_value(chosen, spec, depth_ + 1)); },
        value);
  }
  void location(Location&) {}
  void location(const char*, Location&) {}
  template <class F>
  void check(F&&) {}

  const std::string& text() const { return text_; }

 private:
  void line(const std::string& name, const std::string& value) {
    const bool block = !value.empty() && value.front() == '\n';
    text_ += indent(depth_) + name + ":" + (block ? value : " " + value + "\n");
  }
  int depth_;
  std::string text_;
};

// A scalar or flow value as "text"; a block value as "\n" + lines at `depth`, each ending in "\n".
template <class T>
std::string emit_value(T& value, const FieldSpec& spec, int depth) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (is_integer<T>) {
    return fmt::format("{}", value);
  } else if constexpr (std::is_same_v<T, double>) {
    return quantity_text(value, spec.unit);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return yaml_text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return enum_name(value);
  } else if constexpr (Kind<T>::vector) {
    if (value.empty()) return "[]";
    using Element = typename Kind<T>::Element;
    if constexpr (std::is_arithmetic_v<Element> || std::is_same_v<Element, std::string> ||
                  std::is_enum_v<Element>) {
      std::vector<std::string> items;
      for (auto& item : value) items.push_back(emit_value(item, spec, depth));
      return fmt::format("[{}]", fmt::join(items, ", "));
    } else {
      std::string text = "\n";
      for (auto& item : value) {
        std::string block = emit_value(item, spec, depth + 1);
        if (!block.empty() && block.front() == '\n') {
          block.erase(0, 1 + indent(depth + 1).size());  // the first field follows the dash
        } else {
          block += "\n";
        }
        text += indent(depth) + "- " + block;
      }
      return text;
    }
  } else if constexpr (Kind<T>::map) {
    if (value.empty()) return "{}";
    std::string text = "\n";
    for (auto& [key, item] : value) {
      const std::string block = emit_value(item, spec, depth + 1);
      const bool nested = !block.empty() && block.front() == '\n';
      text += indent(depth) + yaml_text(key) + ":" + (nested ? block : " " + block + "\n");
    }
    return text;
  } else if constexpr (Kind<T>::variant) {
    const auto names = names_of<T>();
    return std::visit(
        [&](auto& chosen) {
          const std::string block = emit_value(chosen, spec, depth + 1);
          const bool nested = !block.empty() && block.front() == '\n';
          return "\n" + indent(depth) + names[value.index()] + ":" +
                 (nested ? block : " " + block + "\n");
        },
        value);
  } else {
    Emitter emitter(depth);
    describe(emitter, value);
    return emitter.text().empty() ? "{}" : "\n" + emitter.text();
  }
}

// --------------------------------------------------------------------------------------------
// schema

using Json = nlohmann::ordered_json;

template <class T>
Json schema_of(const FieldSpec& spec);

class SchemaWriter {
 public:
  template <class T>
  void field(const FieldSpec& spec, T& value) {
    Json schema = schema_of<T>(spec);
    schema["description"] = spec.doc;
    if constexpr (std::is_same_v<T, bool> || is_integer<T>) {
      if (!spec.required) schema["default"] = value;
    } else if constexpr (std::is_same_v<T, double> || std::is_enum_v<T>) {
      if (!spec.required) schema["default"] = emit_value(value, spec, 0);
    }
    properties[spec.name] = std::move(schema);
    if (spec.required) required.push_back(spec.name);
  }
  template <class Variant>
  void alternative(const FieldSpec&, Variant&) {
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
  void location(Location&) {}
  void location(const char*, Location&) {}
  template <class F>
  void check(F&&) {}

  Json object() const {
    Json schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    if (!required.empty()) schema["required"] = required;
    if (one_of.empty()) return schema;
    schema["oneOf"] = one_of;
    return Json{{"anyOf", {{{"type", "string"}, {"enum", words}}, schema}}};
  }

  Json properties = Json::object();
  std::vector<std::string> required;
  Json one_of = Json::array();
  std::vector<std::string> words;
};

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
    Json text{{"type", "string"}, {"pattern", dimension_pattern(spec.unit)}};
    if (spec.unit == Dimension::none) return number;
    if (!bare) return text;
    return {{"anyOf", {number, text}}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", {"string", "number"}}};
  } else if constexpr (std::is_enum_v<T>) {
    return {{"type", "string"}, {"enum", names_of<T>()}};
  } else if constexpr (Kind<T>::optional) {
    return schema_of<typename Kind<T>::Element>(spec);
  } else if constexpr (Kind<T>::vector) {
    const Json element = schema_of<typename Kind<T>::Element>(spec);
    Json list{{"type", "array"}, {"items", element}, {"minItems", spec.min_items}};
    if (spec.max_items < 100'000) list["maxItems"] = spec.max_items;
    if (spec.single) return {{"anyOf", {list, element}}};
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
    return writer.object();
  }
}

// ----------------------------------------------------------------------------------------------
// docs

class DocsWriter {
 public:
  explicit DocsWriter(std::string prefix = "") : prefix_(std::move(prefix)) {}

  template <class T>
  void field(const FieldSpec& spec, T& value) {
    std::string type = type_text<T>(spec), fallback = spec.required ? "required" : "-";
    if constexpr (std::is_same_v<T, bool> || is_integer<T> || std::is_same_v<T, double> ||
                  std::is_enum_v<T> || std::is_same_v<T, std::string>) {
      if (!spec.required) fallback = emit_value(value, spec, 0);
    }
    row(prefix_ + spec.name, type, fallback, bounds_text(spec), spec.doc);
    nested<T>(prefix_ + spec.name);
  }
  template <class Variant>
  void alternative(const FieldSpec& spec, Variant&) {
    row(prefix_ + fmt::format("{}", fmt::join(names_of<Variant>(), " / ")), "exactly one",
        "required", "", spec.doc);
    alternatives<Variant>(prefix_);
  }
  void location(Location&) {}
  void location(const char*, Location&) {}
  template <class F>
  void check(F&&) {}

  std::string text;

 private:
  template <class T>
  static std::string type_text(const FieldSpec& spec) {
    if constexpr (std::is_same_v<T, bool>) {
      return "true or false";
    } else if constexpr (is_integer<T>) {
      return spec.unit == Dimension::none ? "whole number" : dimension_help(spec.unit);
    } else if constexpr (std::is_same_v<T, double>) {
      return dimension_help(spec.unit);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return "text";
    } else if constexpr (std::is_enum_v<T>) {
      return fmt::format("{}", fmt::join(names_of<T>(), ", "));
    } else if constexpr (Kind<T>::optional) {
      return type_text<typename Kind<T>::Element>(spec);
    } else if constexpr (Kind<T>::vector) {
      return "list of " + type_text<typename Kind<T>::Element>(spec);
    } else if constexpr (Kind<T>::map) {
      return "map of " + type_text<typename Kind<T>::Element>(spec);
    } else if constexpr (Kind<T>::variant) {
      return fmt::format("one of {}", fmt::join(names_of<T>(), ", "));
    } else {
      return "map";
    }
  }

  template <class T>
  void nested(const std::string& path) {
    if constexpr (Kind<T>::optional) {
      nested<typename Kind<T>::Element>(path);
    } else if constexpr (Kind<T>::vector) {
      nested<typename Kind<T>::Element>(path + "[]");
    } else if constexpr (Kind<T>::map) {
      nested<typename Kind<T>::Element>(path + ".*");
    } else if constexpr (Kind<T>::variant) {
      alternatives<T>(path + ".");
    } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string> &&
                         !std::is_same_v<T, Node>) {
      DocsWriter inner(path + ".");
      T value{};
      describe(inner, value);
      text += inner.text;
    }
  }
  template <class Variant>
  void alternatives(const std::string& prefix) {
    const auto names = names_of<Variant>();
    for (std::size_t i = 0; i < names.size(); ++i) {
      with_alternative<Variant>(i, [&](auto alternative) {
        DocsWriter inner(prefix + names[i] + ".");
        describe(inner, alternative);
        text += inner.text;
      });
    }
  }
  void row(const std::string& name, const std::string& type, const std::string& fallback,
           const std::string& bounds, const char* doc) {
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", name, type, fallback, bounds, doc);
  }
  std::string prefix_;
};

}  // namespace fields

// Reads one value; what is wrong goes to `diagnostics` and leaves the field at its default.
template <class T>
T read(const Node& node, Diagnostics& diagnostics) {
  T value{};
  fields::read_value(node, value, {}, diagnostics);
  return value;
}

// Throw ConfigError with all errors of the text.
template <class T>
T read_node(const Node& node) {
  Diagnostics diagnostics;
  T value = read<T>(node, diagnostics);
  diagnostics.throw_if_any();
  return value;
}
template <class T>
T read_text(std::string_view text, const std::string& file_name) {
  return read_node<T>(Node::parse_text(text, file_name));
}
template <class T>
T read_file(const std::string& path) {
  return read_node<T>(Node::parse_file(path));
}

// YAML text with every field, defaults included; reads back to an equal value.
template <class T>
std::string emit_yaml(const T& value) {
  fields::Emitter emitter(0);
  T copy = value;  // describe() takes fields by reference for all visitors
  describe(emitter, copy);
  return emitter.text();
}

// JSON Schema draft-07.
template <class T>
nlohmann::ordered_json json_schema(const std::string& title) {
  nlohmann::ordered_json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                                {"title", title}};
  schema.update(fields::schema_of<T>({}));
  return schema;
}

// A Markdown table: field, value, default, range, meaning.
template <class T>
std::string markdown_fields() {
  fields::DocsWriter writer;
  T value{};
  describe(writer, value);
  return "| field | value | default | range | meaning |\n| --- | --- | --- | --- | --- |\n" +
         writer.text;
}

}  // namespace lockstep
