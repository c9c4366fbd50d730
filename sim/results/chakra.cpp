// Reads and writes Chakra's protobuf messages without a protobuf library (core/protobuf_wire.hpp).
// A file is a sequence of messages, each preceded by its length: first the metadata, then the
// nodes. Field numbers come from et_def.proto.
#include "results/chakra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/errors.hpp"
#include "core/protobuf_wire.hpp"

namespace lockstep {
namespace {

// The schema's version in the metadata, and the names of two attributes that only this program
// writes.
constexpr std::string_view schema_version = "0.0.4";
constexpr std::string_view exact_start = "lockstep_start_seconds";
constexpr std::string_view exact_duration = "lockstep_seconds";

// Indexed by CollectiveCommType; empty = a collective that this program does not know.
constexpr std::array<std::string_view, 10> collectives{
    "all_reduce", "reduce",     "all_gather",     "", "",
    "broadcast",  "all_to_all", "reduce_scatter", "", "barrier"};

// Begins an attribute with its name; the caller adds the value.
WireWriter named(std::string_view name) {
  WireWriter attribute;
  attribute.text(1, name);
  return attribute;
}

// Encodes a node as a protobuf message. Field numbers: 1 id, 2 name, 3 type, 5 data dependencies, 6
// start and 7 duration in microseconds, 10 attributes.
WireWriter node_message(const ChakraNode& node) {
  WireWriter message;
  message.integer(1, node.id);
  message.text(2, node.name);
  message.integer(3, static_cast<std::uint64_t>(node.type));
  for (const std::uint64_t id : node.after) message.integer(5, id);
  message.integer(6, static_cast<std::uint64_t>(std::llround(node.start * 1e6)));
  message.integer(7, static_cast<std::uint64_t>(std::llround(node.seconds * 1e6)));
  const auto integer = [&](std::string_view name, std::uint32_t kind, std::uint64_t value) {
    WireWriter attribute = named(name);
    attribute.integer(kind, value);
    message.message(10, attribute);
  };
  const auto real = [&](std::string_view name, double value) {
    WireWriter attribute = named(name);
    attribute.real(3, value);
    message.message(10, attribute);
  };
  integer("is_cpu_op", 27, node.on_host ? 1 : 0);
  if (node.type == ChakraNode::Type::collective) {
    const auto* known = std::find(collectives.begin(), collectives.end(), node.collective);
    integer("comm_type", 9, static_cast<std::uint64_t>(known - collectives.begin()));
  }
  if (node.bytes > 0) integer("comm_size", 9, static_cast<std::uint64_t>(std::llround(node.bytes)));
  real(exact_start, node.start);
  real(exact_duration, node.seconds);
  return message;
}

// A read attribute: its name, and its value as an integer or a real number.
struct Attribute {
  std::string name;
  std::uint64_t integer = 0;
  double real = 0;
};

// Reads the name and the value of an attribute. Integers of every protobuf type are stored as 64
// bits.
Attribute read_attribute(WireMessage message) {
  Attribute attribute;
  for (WireField field; message.next(field);) {
    if (field.number == 1) attribute.name = field.text();
    if (field.number == 3) attribute.real = field.from_double();
    // int32, int64, uint32, uint64, bool
    for (const std::uint32_t number : {7U, 9U, 11U, 13U, 27U})
      if (field.number == number) attribute.integer = field.value;
  }
  return attribute;
}

// Throws ConfigError about a node.
[[noreturn]] void refuse(const std::string& file, const ChakraNode& node,
                         const std::string& problem) {
  throw file_error(file, fmt::format("node {} '{}'", node.id, node.name), problem);
}

// Reads a node. Its control dependencies (field 4) and data dependencies (field 5) become one list.
// Throws ConfigError if type, duration or collective are invalid.
ChakraNode read_node(const std::string& file, WireMessage message) {
  ChakraNode node;
  std::optional<std::uint64_t> collective;
  std::uint64_t type = 0;
  // If this program's attributes give exact times, they replace the whole microseconds of the
  // schema.
  std::optional<double> start, seconds;
  for (WireField field; message.next(field);) {
    if (field.number == 1) node.id = field.value;
    if (field.number == 2) node.name = field.text();
    if (field.number == 3) type = field.value;
    if (field.number == 4 || field.number == 5) message.append(field, node.after);
    if (field.number == 6) node.start = static_cast<double>(field.value) * 1e-6;
    if (field.number == 7) node.seconds = static_cast<double>(field.value) * 1e-6;
    if (field.number != 10) continue;
    const Attribute attribute = read_attribute(message.inside(field));
    if (attribute.name == "is_cpu_op") node.on_host = attribute.integer != 0;
    if (attribute.name == "comm_type") collective = attribute.integer;
    if (attribute.name == "comm_size") node.bytes = static_cast<double>(attribute.integer);
    if (attribute.name == exact_start) start = attribute.real;
    if (attribute.name == exact_duration) seconds = attribute.real;
  }
  node.start = start.value_or(node.start);
  node.seconds = seconds.value_or(node.seconds);
  if (type < 1 || type > 7) refuse(file, node, fmt::format("type {} is not known", type));
  node.type = static_cast<ChakraNode::Type>(type);
  if (!(node.seconds >= 0) || !std::isfinite(node.seconds) || !std::isfinite(node.start))
    refuse(file, node, "its duration is no time");
  if (node.type == ChakraNode::Type::collective) {
    if (!collective) refuse(file, node, "a collective without comm_type");
    if (*collective >= collectives.size() || collectives[*collective].empty())
      refuse(file, node, fmt::format("comm_type {} is not known", *collective));
    node.collective = collectives[*collective];
  }
  return node;
}

}  // namespace

std::string chakra_bytes(const std::vector<ChakraNode>& nodes) {
  WireWriter metadata;
  metadata.text(1, schema_version);
  WireWriter out;
  out.delimited(metadata);
  for (const ChakraNode& node : nodes) out.delimited(node_message(node));
  return out.bytes();
}

std::vector<ChakraNode> read_chakra(const std::string& file, std::string_view bytes) {
  std::vector<ChakraNode> nodes;
  std::set<std::uint64_t> ids;
  std::string_view rest = bytes;
  for (bool first = true; !rest.empty() || first; first = false) {
    const std::string_view message = take_delimited(file, bytes, rest);
    if (first) continue;  // the metadata
    nodes.push_back(read_node(file, WireMessage(file, bytes, message)));
    if (!ids.insert(nodes.back().id).second)
      refuse(file, nodes.back(), "there is another node of this id");
  }
  if (nodes.empty())
    throw file_error(file, "", "holds no nodes: this is no Chakra trace",
                     "lockstep run --trace FOLDER/ --trace-format chakra writes one a rank");
  return nodes;
}

}  // namespace lockstep
