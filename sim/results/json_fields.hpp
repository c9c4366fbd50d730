// Converts values with declared fields (fields.hpp) to JSON and back. Used for result documents and
// for messages between processes.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "results/fields.hpp"

namespace lockstep {

// Kinds of field types that the visitors of results treat differently.
namespace figures {

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// JSON objects with arbitrary keys: value -> count, and kind of memory -> bytes.
using Histogram = std::map<std::int64_t, std::int64_t>;
using Kinds = std::map<std::string, double>;

// Numbers, truth values and texts.
template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;
// Whether T has a describe() function that declares its fields.
template <class T>
inline constexpr bool has_fields =
    std::is_class_v<T> && !is_plain<T> && !is_vector<T> && !is_optional<T> &&
    !std::is_same_v<T, Histogram> && !std::is_same_v<T, Kinds> && !std::is_same_v<T, Interval>;

}  // namespace figures

// Converts a value to JSON: numbers and texts unchanged, enumerators as their names, an Interval as
// [low, high], a list as an array, a Histogram as an object, a type with declared fields as an
// object with these fields.
template <class T>
nlohmann::ordered_json json_of(const T& value);

// Collects the fields of a value as a JSON object. Leaves out optional fields that are absent, and
// zeros of fields that declare none_at_zero.
class JsonWriter : public FigureVisitor<JsonWriter> {
 public:
  template <class T>
  void visit(const Figure& figure, const T& value) {
    if constexpr (figures::is_optional<T>) {
      if (value) json[figure.name] = json_of(*value);
    } else {
      if constexpr (std::is_same_v<T, double>) {
        if (figure.none_at_zero && !(value > 0)) return;
      }
      json[figure.name] = json_of(value);
    }
  }

  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

template <class T>
nlohmann::ordered_json json_of(const T& value) {
  if constexpr (figures::is_plain<T> || std::is_same_v<T, figures::Kinds>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return enum_name(value);
  } else if constexpr (std::is_same_v<T, Interval>) {
    return {value.low, value.high};
  } else if constexpr (figures::is_vector<T>) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& element : value) list.push_back(json_of(element));
    return list;
  } else if constexpr (std::is_same_v<T, figures::Histogram>) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [key, count] : value) object[std::to_string(key)] = count;
    return object;
  } else {
    JsonWriter writer;
    describe(writer, value);
    return std::move(writer.json);
  }
}

// Reads every field that JsonWriter wrote, with exactly the same value. Throws
// nlohmann::json::exception if the JSON has another structure.
template <class T>
void read_json(const nlohmann::ordered_json& json, T& value);

// The inverse of JsonWriter: fills the fields of a value. A missing field is an error unless it is
// optional or declares none_at_zero.
class JsonReader : public FigureVisitor<JsonReader> {
 public:
  explicit JsonReader(const nlohmann::ordered_json& json) : json_(json) {}

  template <class T>
  void visit(const Figure& figure, T& value) {
    if constexpr (figures::is_optional<T>) {
      if (json_.contains(figure.name)) read_json(json_.at(figure.name), value.emplace());
    } else {
      if (figure.none_at_zero && !json_.contains(figure.name)) return;
      read_json(json_.at(figure.name), value);
    }
  }

 private:
  const nlohmann::ordered_json& json_;
};

template <class T>
void read_json(const nlohmann::ordered_json& json, T& value) {
  if constexpr (std::is_same_v<T, double>) {
    value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  } else if constexpr (figures::is_plain<T> || std::is_same_v<T, figures::Kinds>) {
    json.get_to(value);
  } else if constexpr (std::is_same_v<T, Interval>) {
    json.at(0).get_to(value.low);
    json.at(1).get_to(value.high);
  } else if constexpr (std::is_enum_v<T>) {
    const auto& names = EnumNames<T>::names;
    const auto found = std::find(names.begin(), names.end(), json.get<std::string>());
    value = static_cast<T>(found - names.begin());
  } else if constexpr (figures::is_vector<T>) {
    for (const auto& element : json) read_json(element, value.emplace_back());
  } else if constexpr (std::is_same_v<T, figures::Histogram>) {
    for (const auto& [key, count] : json.items()) value[std::stoll(key)] = count;
  } else {
    JsonReader reader(json);
    describe(reader, value);
  }
}

}  // namespace lockstep
