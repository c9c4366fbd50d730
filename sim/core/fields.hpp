// ONE declaration per field: a struct declares the name, meaning, default and bounds of its fields
// once. Declare fields this way for every file format: reading (with located errors), the JSON
// schema, the docs table and the expanded export all follow from the declaration. A readable struct
// has default member initialisers (these are the defaults) and a function
//
//   template <class Visitor>
//   void describe(Visitor& v, Dataset& d) {
//     v.field("samples", d.samples, "Training samples in one epoch.",
//             {.unit = Dimension::count, .min = 1, .max = 1e12, .required = true});
//   }
//
// found by argument-dependent lookup. Supported types: bool, int, std::int64_t, double,
// std::string, Node (stored unread, for a reader of its own), enums with EnumNames<E>, structs with
// describe(), and std::vector<T>, std::optional<T>, std::map<std::string, T> and std::variant<...>
// with AlternativeNames<V> of these. A variant of structs is written `name` (all defaults) or
// `name: {...}`: e.g. `ddp`, `fsdp: {...}`. core/describe.hpp has the readers and writers.
//
// Besides field(), a visitor offers
//   v.alternative(name, variant, doc)  the variant's names are keys of THIS map, beside its other
//                                  fields: `- fsdp: {...}` with `label: ...` below it; or the
//                                  bare word `fsdp`
//   v.location(Location&)          the reader stores the place of this map
//   v.location("name", Location&)  ... the place of one field's value, or of the map if the
//                                  field is absent
//   v.location("name", std::map<std::string, Location>&)  ... of every entry of a field's map
//   v.check(f)                     checks rules between fields: after all fields, the reader calls
//                                  f(report), and f calls report(field_name, message, hint)
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "core/units.hpp"

namespace lockstep {

// The properties that a declaration gives to a field. FieldVisitor::field() sets `name` and `doc`;
// a declaration gives the others as designated initialisers.
struct FieldSpec {
  const char* name = "";
  const char* doc = "";  // one sentence: the field's meaning, in the docs, the schema and errors
  Dimension unit = Dimension::none;  // how the value is written (core/units.hpp)
  // of the number, inclusive, in the base unit
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  // If true, a file without the field is an error. Otherwise the member's initialiser is the
  // default.
  bool required = false;
  // For lists and maps: the number of elements allowed.
  std::size_t min_items = 0;
  std::size_t max_items = 100'000;
  bool or_empty = false;  // an empty list is allowed in spite of min_items
  // A list of one element may be written as that element, and a map as the value of its first
  // field.
  bool single = false;
  // A list of values in this field means as many alternatives (scenario/alternatives.hpp). The
  // reader of core/describe_read.hpp accepts only one value.
  bool several = false;
};

// Base of a visitor (curiously recurring template). It turns each field() of a declaration into
// visit(spec, value) of the visitor, and ignores locations and checks. A visitor that needs
// locations or checks declares its own location() and check(), which hide the functions of the
// base. `Spec` may be another type with `name` and `doc`, as for results.
template <class Visitor, class Spec = FieldSpec>
struct FieldVisitor {
  template <class T>
  void field(const char* name, T&& value, const char* doc = "", Spec spec = {}) {
    spec.name = name;
    spec.doc = doc;
    static_cast<Visitor*>(this)->visit(spec, value);
  }
  template <class Variant>
  void alternative(const char* name, Variant& value, const char* doc) {
    static_cast<Visitor*>(this)->visit_alternative({.name = name, .doc = doc}, value);
  }
  template <class... Where>
  void location(Where&&...) {}
  template <class Check>
  void check(Check&&) {}
};

// Names of an enum's values, in order. Specialise it for each enum that a file may hold:
//   template <> struct EnumNames<Precision> { static constexpr std::array names{"fp32", "tf32"}; };
// REQUIRES: the enum's values are 0, 1, 2, ... in the same order.
template <class Enum>
struct EnumNames;

// Names of a variant's alternatives, in order; specialise it like EnumNames.
template <class Variant>
struct AlternativeNames;

template <class Enum>
std::string enum_name(Enum value) {
  return EnumNames<Enum>::names[static_cast<std::size_t>(value)];
}

}  // namespace lockstep
