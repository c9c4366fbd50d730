// Part of core/describe.hpp: writes a described value as YAML that reads back to an equal value.
// Include core/describe.hpp, which offers it as emit_yaml(), instead of this file.
#pragma once

#include "core/describe_kinds.hpp"
#include "core/yaml.hpp"

namespace lockstep::fields {

// A text as a YAML scalar: plain if the plain text reads back as the same text, double-quoted
// otherwise.
std::string yaml_text(const std::string& text);
inline std::string indent(int depth) {
  return std::string(static_cast<std::size_t>(2 * depth), ' ');
}

template <class T>
std::string emit_value(T& value, const FieldSpec& spec, int depth);

// Visitor that writes the fields of one struct, one per line, each line indented for `depth` (two
// blanks a level). Omits empty optional fields and fields of type Node.
class Emitter : public FieldVisitor<Emitter> {
 public:
  explicit Emitter(int depth) : depth_(depth) {}

  template <class T>
  void visit(const FieldSpec& spec, T& value) {
    if constexpr (Kind<T>::optional) {
      if (!value) return;
      line(spec.name, emit_value(*value, spec, depth_ + 1));
    } else if constexpr (!std::is_same_v<T, Node>) {
      line(spec.name, emit_value(value, spec, depth_ + 1));
    }
  }
  template <class Variant>
  void visit_alternative(const FieldSpec& spec, Variant& value) {
    const auto names = names_of<Variant>();
    std::visit(
        [&](auto& chosen) { line(names[value.index()], emit_value(chosen, spec, depth_ + 1)); },
        value);
  }

  const std::string& text() const { return text_; }

 private:
  // Adds `name: value`. A value that begins with a line end is a block and is written below the
  // name.
  void line(const std::string& name, const std::string& value) {
    const bool block = !value.empty() && value.front() == '\n';
    text_ += indent(depth_) + name + ":" + (block ? value : " " + value + "\n");
  }
  int depth_;
  std::string text_;
};

// The text of a value. A scalar or a list of scalars is one line without a line end. Any other
// value begins with a line end, followed by lines indented for `depth`, each with its line end.
// Empty lists, maps and structs are "[]" and "{}".
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
    if constexpr (is_scalar_list<T>) {
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

}  // namespace lockstep::fields
