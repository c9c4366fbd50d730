// Classifies field types at compile time for the visitors of core/describe.hpp: list, optional,
// map, variant, scalar. A visitor includes it to choose the code for a type by `if constexpr`.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/fields.hpp"

namespace lockstep::fields {

// Whether T is a std::vector, std::optional, std::map with text keys, or std::variant; Element is
// the type of the values inside of the first three.
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

// The two integer types that a field may have; bool is a type of its own.
template <class T>
constexpr bool is_integer = std::is_same_v<T, int> || std::is_same_v<T, std::int64_t>;

// A type with one value. Scalars and lists of scalars are written on one line.
template <class T>
constexpr bool is_scalar =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_enum_v<T>;
template <class T>
constexpr bool is_scalar_list = false;
template <class T>
constexpr bool is_scalar_list<std::vector<T>> = is_scalar<T>;

// The names of an enum's values or of a variant's alternatives, in order.
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

// The allowed range of a number as a text: "1 to 10", "at least 1 us"; "" if there are no bounds.
// Plain numbers, counts and fractions are written without a unit.
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

// Visitor that stores the declaration of a struct's first field. It serves structs that may be
// written as the value of their first field (FieldSpec::single).
class FirstField : public FieldVisitor<FirstField> {
 public:
  template <class T>
  void visit(const FieldSpec& spec, T&) {
    if (*first.name == '\0') first = spec;
  }
  template <class Variant>
  void visit_alternative(const FieldSpec&, Variant&) {}

  FieldSpec first;
};

}  // namespace lockstep::fields
