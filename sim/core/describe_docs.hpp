// Part of core/describe.hpp: the rows of a described type's Markdown table. Include
// core/describe.hpp, which offers them as markdown_fields(), instead of this file.
//
// A row's first cell is the dotted path of a field: `link.latency`, `links[].latency` in a list,
// `links.*.latency` in a map, `fsdp.wrap` in an alternative of a variant.
#pragma once

#include "core/describe_emit.hpp"

namespace lockstep::fields {

// Visitor that writes one row per field, in the order of the declaration. The rows of a field's
// inner fields follow the field's row. `prefix` is the path of the enclosing struct, with its dot.
class DocsWriter : public FieldVisitor<DocsWriter> {
 public:
  explicit DocsWriter(std::string prefix = "") : prefix_(std::move(prefix)) {}

  template <class T>
  void visit(const FieldSpec& spec, T& value) {
    std::string type = type_text<T>(spec), fallback = spec.required ? "required" : "-";
    if constexpr (!Kind<T>::vector) {
      if (spec.single) type = "map, or its first field alone";
    }
    if (spec.several) type += ", or a list of alternatives";
    if constexpr (is_scalar<T> || is_scalar_list<T>) {
      if (!spec.required) fallback = emit_value(value, spec, 0);
    }
    row(prefix_ + spec.name, type, fallback, bounds_text(spec), spec.doc);
    nested<T>(prefix_ + spec.name);
  }
  // The alternatives' names are keys of the enclosing map, so they share one row.
  template <class Variant>
  void visit_alternative(const FieldSpec& spec, Variant&) {
    row(prefix_ + fmt::format("{}", fmt::join(names_of<Variant>(), " / ")), "exactly one",
        "required", "", spec.doc);
    alternatives<Variant>(prefix_);
  }

  // The rows written so far, each with its line end.
  std::string text;

 private:
  // The cell "value": the type in a user's words, with an example of a quantity.
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

  // The rows of the fields inside of a T at `path`; scalars have none. The defaults come from a
  // default-constructed T.
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
  // The rows of each alternative's own fields, under `prefix` and the alternative's name.
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
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", name, cell(type), cell(fallback), bounds,
                        cell(doc));
  }
  // A vertical bar in a cell would end it.
  static std::string cell(const std::string& content) {
    std::string escaped;
    for (const char c : content) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
    return escaped;
  }
  std::string prefix_;
};

}  // namespace lockstep::fields
