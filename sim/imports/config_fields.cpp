// Reads the fields of a config.json with located errors. Python writes None as null, so a null
// field counts as absent. As in JSON, a number in quotes is a text.
#include "imports/config_fields.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

// The node's value if its whole text is a number of type T; nothing for texts in quotes.
template <class T>
std::optional<T> parsed(const Node& node) {
  const std::string& text = node.scalar();
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (node.kind() != Node::Kind::scalar || node.quoted() || error != std::errc() ||
      end != text.data() + text.size())
    return std::nullopt;
  return value;
}

}  // namespace

ConfigFields::ConfigFields(Node root) : root_(std::move(root)) {
  if (root_.kind() != Node::Kind::map)
    throw ConfigError(root_.error("must be a map of fields, not " + kind_text(root_)));
}

// The field's value; nothing if it is absent or null.
std::optional<Node> ConfigFields::present(const std::string& name) const {
  auto node = root_.find(name);
  if (node && node->kind() == Node::Kind::null) node.reset();
  return node;
}

bool ConfigFields::has(const std::string& name) const {
  return present(name).has_value();
}

void ConfigFields::wrong(const std::string& name, const std::string& message,
                         const std::string& hint) {
  const auto node = root_.find(name);
  Diagnostic diagnostic = node ? node->error(message, hint) : root_.error(message, hint);
  diagnostic.field = name;
  diagnostics_.add(std::move(diagnostic));
}

void ConfigFields::finish() const {
  diagnostics_.throw_if_any();
}

// The bound keeps products of sizes within 64 bits.
std::int64_t ConfigFields::size(const std::string& name) {
  if (!has(name)) wrong(name, "missing");
  return size(name, 1);
}

std::int64_t ConfigFields::size(const std::string& name, std::int64_t absent) {
  const auto node = present(name);
  if (!node) return absent;
  const auto value = parsed<std::int64_t>(*node);
  if (value && *value >= 1 && *value <= std::numeric_limits<std::int32_t>::max()) return *value;
  wrong(name, fmt::format("must be a whole number from 1 to 2147483647, not {}", kind_text(*node)));
  return 1;
}

double ConfigFields::number(const std::string& name, double absent) {
  const auto node = present(name);
  if (!node) return absent;
  const auto value = parsed<double>(*node);
  if (value && std::isfinite(*value)) return *value;
  wrong(name, fmt::format("must be a number, not {}", kind_text(*node)));
  return absent;
}

bool ConfigFields::flag(const std::string& name, bool absent) {
  const auto node = present(name);
  if (!node) return absent;
  const bool plain = node->kind() == Node::Kind::scalar && !node->quoted();
  if (plain && node->scalar() == "true") return true;
  if (!plain || node->scalar() != "false")
    wrong(name, fmt::format("must be true or false, not {}", kind_text(*node)));
  return false;
}

std::string ConfigFields::word(const std::string& name, const std::string& absent) {
  const auto node = present(name);
  if (!node) return absent;
  if (node->kind() == Node::Kind::scalar && node->quoted()) return node->scalar();
  wrong(name, fmt::format("must be a text, not {}", kind_text(*node)));
  return absent;
}

std::string ConfigFields::required_word(const std::string& name) {
  if (!has(name)) wrong(name, "missing");
  return word(name, "");
}

std::vector<std::string> ConfigFields::words(const std::string& name) {
  const auto node = present(name);
  std::vector<std::string> all;
  if (!node) return all;
  if (node->kind() != Node::Kind::sequence)
    wrong(name, fmt::format("must be a list, not {}", kind_text(*node)));
  for (const Node& element : node->elements()) all.push_back(element.scalar());
  return all;
}

std::int64_t ConfigFields::entries(const std::string& name, std::int64_t absent) {
  const auto node = present(name);
  if (!node) return absent;
  if (node->kind() != Node::Kind::map || node->entries().empty()) {
    wrong(name, fmt::format("must be a map with entries, not {}", kind_text(*node)));
    return absent;
  }
  return static_cast<std::int64_t>(node->entries().size());
}

}  // namespace lockstep
