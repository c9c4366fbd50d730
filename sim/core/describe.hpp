// Entry header for describe() declarations (core/fields.hpp): reading YAML with located errors, the
// expanded YAML export, the JSON schema and the docs table. Declare the fields beside the type or
// in a header of their own, and include this file in the .cpp that reads:
//
//   struct Link {
//     double bandwidth = 0, latency = 1e-6;
//   };
//   template <class Visitor>
//   void describe(Visitor& v, Link& l) {
//     v.field("bandwidth", l.bandwidth, "One way, payload.",
//             {.unit = Dimension::bytes_per_second, .min = 1, .max = 1e15, .required = true});
//     v.field("latency", l.latency, "Time of the empty message.",
//             {.unit = Dimension::seconds, .min = 0, .max = 10});
//     v.check([&](auto report) {
//       if (l.latency * l.bandwidth > 1e12) report("latency", "is absurd", "below 1 s is usual");
//     });
//   }
//
//   Link link = read_file<Link>(path);     // ConfigError holds all errors
//   std::string text = emit_yaml(link);    // reads back to an equal value
//   auto schema = json_schema<Link>("Link file");
//   std::string table = markdown_fields<Link>();
//
// A bad file gives, one per line:
//   net.yaml:1:12: bandwidth: '25' needs a unit, for example 2039 GB/s; allowed units: B/s, ...
//   net.yaml:2:1: latencyy: unknown key; allowed: bandwidth, latency; did you mean 'latency'?
#pragma once

#include <string>
#include <string_view>

#include "core/describe_docs.hpp"
#include "core/describe_emit.hpp"
#include "core/describe_read.hpp"
#include "core/describe_schema.hpp"

namespace lockstep {

// Reads one value and adds errors to `diagnostics`. A field with an error has its default or the
// refused value.
// REQUIRES: the value is not used if there are errors.
template <class T>
T read(const Node& node, Diagnostics& diagnostics) {
  T value{};
  fields::read_value(node, value, {}, diagnostics);
  return value;
}

// These functions read a value from a node, a text or a file. They throw ConfigError with all
// errors of the text at once. `file_name` is the name that messages use.
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

// YAML text with every field, defaults included; the text reads back to an equal value. Optional
// fields without a value and fields of type Node are left out.
template <class T>
std::string emit_yaml(const T& value) {
  fields::Emitter emitter(0);
  T copy = value;  // describe() takes fields by reference for all visitors
  describe(emitter, copy);
  return emitter.text();
}

// JSON Schema draft-07 of a file that holds one T; editors use it to complete and check files.
template <class T>
nlohmann::ordered_json json_schema(const std::string& title) {
  nlohmann::ordered_json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                                {"title", title}};
  schema.update(fields::schema_of<T>({}));
  return schema;
}

// Markdown table with one row per field, nested fields included: field, value, default, range,
// meaning. `lockstep schema NAME --fields` prints it, and the pages of docs/ hold it.
template <class T>
std::string markdown_fields() {
  fields::DocsWriter writer;
  T value{};
  describe(writer, value);
  return "| field | value | default | range | meaning |\n| --- | --- | --- | --- | --- |\n" +
         writer.text;
}

}  // namespace lockstep
