// Writes Node trees as YAML: either on one line (flow style), or as a document with a line per
// field. The explorer shows a scenario as such a document after its settings have changed the
// scenario's tree.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/describe_emit.hpp"
#include "core/yaml.hpp"

namespace lockstep {

namespace {

// The text of a scalar. A quoted null is a text, so it must remain quoted.
std::string scalar_text(const Node& node) {
  const std::string text = fields::yaml_text(node.scalar());
  return node.quoted() && text.front() != '"' ? fmt::format("\"{}\"", text) : text;
}

bool holds_maps(const Node& node) {
  const std::vector<Node> elements = node.elements();
  return std::any_of(elements.begin(), elements.end(),
                     [](const Node& element) { return element.kind() == Node::Kind::map; });
}

}  // namespace

std::string flow_text(const Node& node) {
  std::vector<std::string> parts;
  switch (node.kind()) {
    case Node::Kind::null:
      return "~";
    case Node::Kind::scalar:
      return scalar_text(node);
    case Node::Kind::sequence:
      for (const Node& element : node.elements()) parts.push_back(flow_text(element));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case Node::Kind::map:
      for (const auto& [key, value] : node.entries()) {
        parts.push_back(fmt::format("{}: {}", fields::yaml_text(key), flow_text(value)));
      }
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return "";
}

std::string document_text(const Node& map) {
  std::string text;
  for (const auto& [key, value] : map.entries()) {
    const std::string name = fields::yaml_text(key);
    if (value.kind() == Node::Kind::sequence && holds_maps(value)) {
      text += name + ":\n";
      for (const Node& element : value.elements()) text += "  - " + flow_text(element) + "\n";
    } else {
      text += fmt::format("{}: {}\n", name, flow_text(value));
    }
  }
  return text;
}

}  // namespace lockstep
