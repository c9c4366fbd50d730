// Part of core/describe.hpp: reads a YAML tree into a described value and reports all errors.
// Include core/describe.hpp, which offers it as read_file(), read_text() and read(), instead of
// this file.
//
// All functions add errors to `diagnostics` and continue, so that a user sees every error of a file
// at once.
#pragma once

#include <algorithm>

#include "core/describe_kinds.hpp"
#include "core/yaml.hpp"

namespace lockstep::fields {

template <class T>
void read_value(const Node& node, T& value, const FieldSpec& spec, Diagnostics& diagnostics);

// Visitor that reads one map into one struct. describe() calls it field by field; finish() must be
// called afterwards, because only then all known keys are known.
class Reader : public FieldVisitor<Reader> {
 public:
  Reader(const Node& node, Diagnostics& diagnostics)
      : node_(node), diagnostics_(diagnostics), errors_before_(diagnostics.list().size()) {}

  template <class T>
  void visit(const FieldSpec& spec, T& value) {
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

  // Reads the alternative that the map names by one of its keys, or by a bare word in place of the
  // map (`- ddp`). Two such keys exclude each other.
  template <class Variant>
  void visit_alternative(const FieldSpec& spec, Variant& value) {
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
        Diagnostic diagnostic =
            child->error(fmt::format("'{}' and '{}' exclude each other", names[*chosen], names[i]));
        diagnostic.where = node_.key_location(names[i]);
        diagnostics_.add(std::move(diagnostic));
        continue;
      }
      chosen = i;
      read_alternative(*child, i, value);
    }
    if (!chosen) needs_one_of_ = fmt::format("needs one of: {}", fmt::join(names, ", "));
  }

  // These functions store the places of values for messages of later checks (core/fields.hpp).
  void location(Location& where) { where = node_.where(); }
  void location(const char* name, Location& where) {
    const auto child = node_.find(name);
    where = child ? child->where() : node_.where();
  }
  void location(const char* name, std::map<std::string, Location>& where) {
    const auto child = node_.find(name);
    if (!child) return;
    for (const auto& [key, value] : child->entries()) where[key] = value.where();
  }

  // Calls f(report) to check a rule between fields. Such checks are skipped after an error in a
  // field, because their messages would follow from that error, and for a struct that is written as
  // a bare word.
  template <class F>
  void check(F&& f) {
    if (node_.kind() != Node::Kind::map || diagnostics_.list().size() > errors_before_) return;
    // The message points at the named field if the file has it, else at the map, under the field's
    // path.
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

  // Reports unknown keys, a value that is no map, and a missing alternative. Called after
  // describe().
  void finish() {
    if (node_.kind() != Node::Kind::map) {
      if (!bare_word_) {
        diagnostics_.add(node_.error(fmt::format("must be a map, not {}", kind_text(node_)),
                                     fmt::format("keys: {}", fmt::join(known_, ", "))));
      }
      return;
    }
    const std::size_t errors = diagnostics_.list().size();
    for (const auto& [key, child] : node_.entries()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      Diagnostic diagnostic = child.error("unknown key", allowed_hint(key, known_));
      diagnostic.where = node_.key_location(key);
      diagnostics_.add(std::move(diagnostic));
    }
    // A misspelled alternative is reported once, as an unknown key, and not also as a missing
    // alternative.
    if (!needs_one_of_.empty() && diagnostics_.list().size() == errors) {
      diagnostics_.add(node_.error(needs_one_of_));
    }
  }

  // Sets `value` to the alternative number `index`, read from `child`.
  template <class Variant>
  void read_alternative(const Node& child, std::size_t index, Variant& value) {
    with_alternative<Variant>(index, [&](auto alternative) {
      // `name` without a value means `name: {}`, so required fields of the alternative are reported
      // as missing.
      const bool bare = child.kind() == Node::Kind::null;
      read_value(bare ? child.empty_map() : child, alternative, {}, diagnostics_);
      value = std::move(alternative);
    });
  }

 private:
  void missing(const FieldSpec& spec) {
    if (node_.kind() != Node::Kind::map) return;  // finish() reports that a map is needed
    Diagnostic diagnostic = node_.error("missing");
    diagnostic.field = node_.path().empty() ? spec.name : node_.path() + "." + spec.name;
    diagnostic.hint = fmt::format("required: {}", spec.doc);
    diagnostics_.add(std::move(diagnostic));
  }

  const Node& node_;
  Diagnostics& diagnostics_;
  std::size_t errors_before_;
  // Keys that the struct declares, for the hint after an unknown key.
  std::vector<std::string> known_;
  // Message for a map without a key of its alternatives; "" if it has one or has no alternatives.
  std::string needs_one_of_;
  // The struct is written as the bare word of its alternative, not as a map.
  bool bare_word_ = false;
};

// Reports a number outside of the field's bounds.
template <class T>
void check_range(const Node& node, T value, const FieldSpec& spec, Diagnostics& diagnostics) {
  const auto number = static_cast<double>(value);
  if (number >= spec.min && number <= spec.max) return;
  diagnostics.add(node.error(fmt::format("{} is out of range", kind_text(node)),
                             "allowed: " + bounds_text(spec)));
}

// Reads a quantity in the field's unit and stores it in the base unit. Integers must be whole and
// at most 2^53, because doubles do not represent every integer above.
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

// Returns whether `node` is a scalar. If it is not, reports that `expected` is needed.
inline bool expect_scalar(const Node& node, const std::string& expected, Diagnostics& diagnostics) {
  if (node.kind() == Node::Kind::scalar) return true;
  diagnostics.add(node.error(fmt::format("must be {}, not {}", expected, kind_text(node))));
  return false;
}

// Reports a list or map with too few or too many elements.
inline void check_count(const Node& node, std::size_t count, const FieldSpec& spec,
                        Diagnostics& diagnostics) {
  if (count >= spec.min_items && count <= spec.max_items) return;
  if (count == 0 && spec.or_empty) return;
  std::string allowed = spec.max_items >= 100'000
                            ? fmt::format("at least {} needed", spec.min_items)
                        : spec.min_items == spec.max_items
                            ? fmt::format("allowed: {}", spec.min_items)
                            : fmt::format("allowed: {} to {}", spec.min_items, spec.max_items);
  if (spec.or_empty) allowed += ", or none";
  diagnostics.add(
      node.error(fmt::format("has {} element{}", count, count == 1 ? "" : "s"), allowed));
}

// Only `true` and `false` are truth values; YAML 1.1's `yes`, `on` and others are errors.
inline void read_bool(const Node& node, bool& value, Diagnostics& diagnostics) {
  if (!expect_scalar(node, "true or false", diagnostics)) return;
  if (node.scalar() == "true" || node.scalar() == "false") {
    value = node.scalar() == "true";
  } else {
    diagnostics.add(node.error(fmt::format("{} is neither true nor false", kind_text(node)),
                               "allowed: true, false"));
  }
}

template <class Enum>
void read_enum(const Node& node, Enum& value, Diagnostics& diagnostics) {
  const auto names = names_of<Enum>();
  if (!expect_scalar(node, fmt::format("one of {}", fmt::join(names, ", ")), diagnostics)) return;
  const auto found = std::find(names.begin(), names.end(), node.scalar());
  if (found == names.end()) {
    diagnostics.add(node.error(fmt::format("unknown value {}", kind_text(node)),
                               allowed_hint(node.scalar(), names)));
  } else {
    value = static_cast<Enum>(found - names.begin());
  }
}

template <class T>
T read_element(const Node& node, const FieldSpec& spec, Diagnostics& diagnostics) {
  T element{};
  read_value(node, element, spec, diagnostics);
  return element;
}

// Reads a list. With FieldSpec::single, a value that is no list is read as a list of that one
// element.
template <class List>
void read_list(const Node& node, List& value, const FieldSpec& spec, Diagnostics& diagnostics) {
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
  value.clear();
  for (const Node& element : elements) {
    value.push_back(read_element<typename Kind<List>::Element>(element, spec, diagnostics));
  }
}

// Reads a map from texts to values of one type. The bounds of the declaration apply to each value.
template <class Map>
void read_map(const Node& node, Map& value, const FieldSpec& spec, Diagnostics& diagnostics) {
  if (node.kind() != Node::Kind::map) {
    diagnostics.add(node.error(fmt::format("must be a map, not {}", kind_text(node))));
    return;
  }
  check_count(node, node.entries().size(), spec, diagnostics);
  value.clear();
  for (const auto& [key, child] : node.entries()) {
    value.emplace(key, read_element<typename Kind<Map>::Element>(child, spec, diagnostics));
  }
}

// Reads a variant that is a field's value: `name`, or a map with one key, `name: {...}`.
template <class Variant>
void read_variant(const Node& node, Variant& value, Diagnostics& diagnostics) {
  const auto names = names_of<Variant>();
  Reader reader(node, diagnostics);
  const auto entries = node.entries();
  const bool bare = node.kind() == Node::Kind::scalar;
  if (!bare && entries.size() != 1) {
    diagnostics.add(node.error(
        fmt::format("must be one of {}, with options as `name: {{...}}`", fmt::join(names, ", "))));
    return;
  }
  const std::string& name = bare ? node.scalar() : entries.front().first;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    diagnostics.add(
        node.error(fmt::format("unknown name {}", in_quotes(name)), allowed_hint(name, names)));
    return;
  }
  reader.read_alternative(bare ? node.empty_map() : entries.front().second,
                          static_cast<std::size_t>(found - names.begin()), value);
}

// Reads a value of any supported type, by its kind (core/describe_kinds.hpp).
template <class T>
void read_value(const Node& node, T& value, const FieldSpec& spec, Diagnostics& diagnostics) {
  if (spec.several && node.kind() == Node::Kind::sequence) {
    diagnostics.add(node.error("lists alternatives, where one value is asked for",
                               "`lockstep run` compares alternatives"));
    return;
  }
  if constexpr (std::is_same_v<T, Node>) {
    value = node;
  } else if constexpr (std::is_same_v<T, bool>) {
    read_bool(node, value, diagnostics);
  } else if constexpr (is_integer<T> || std::is_same_v<T, double>) {
    const char* kind = is_integer<T> ? "a whole number" : "a number";
    if (expect_scalar(node, spec.unit == Dimension::none ? kind : dimension_help(spec.unit),
                      diagnostics)) {
      read_number(node, value, spec, diagnostics);
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (expect_scalar(node, "a text", diagnostics)) value = node.scalar();
  } else if constexpr (std::is_enum_v<T>) {
    read_enum(node, value, diagnostics);
  } else if constexpr (Kind<T>::optional) {
    value.reset();
    if (node.kind() == Node::Kind::null) return;
    value = read_element<typename Kind<T>::Element>(node, spec, diagnostics);
  } else if constexpr (Kind<T>::vector) {
    read_list(node, value, spec, diagnostics);
  } else if constexpr (Kind<T>::map) {
    read_map(node, value, spec, diagnostics);
  } else if constexpr (Kind<T>::variant) {
    read_variant(node, value, diagnostics);
  } else {
    // A scalar in place of a map is the value of the struct's first field.
    if (spec.single && node.kind() == Node::Kind::scalar) {
      FirstField of;
      describe(of, value);
      const Node map = node.empty_map().with(of.first.name, node, node.where());
      return read_value(map, value, {}, diagnostics);
    }
    Reader reader(node, diagnostics);
    describe(reader, value);
    reader.finish();
  }
}

}  // namespace lockstep::fields
