// Puts settings into a scenario's YAML tree, also into single entries of `strategies`. A setting
// inside an entry takes only one value; several values need `lockstep sweep`.
#include "sweep/override.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/describe.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

namespace {

// The strategy's name in an entry, which is a bare name or a map; "" if it has no known name.
std::string kind_of_entry(const Node& entry) {
  if (entry.kind() == Node::Kind::scalar) return entry.scalar();
  for (const char* name : AlternativeNames<StrategyOptions>::names) {
    if (entry.find(name)) return name;
  }
  return "";
}

// The value to put into the tree: a single value unchanged, several values as a list. The value of
// `strategies` is always a list.
Node value_of(const Setting& setting) {
  const bool single = setting.values.size() == 1;
  const Node& first = setting.values.front();
  if (single && (setting.path != "strategies" || first.kind() == Node::Kind::sequence))
    return first;
  return Node::parse_text("[]", setting.name).with_elements(setting.values);
}

// The scenario with one setting.
Node with_setting(const Node& root, const Setting& setting) {
  const std::vector<Node> entries = elements_of(root, "strategies");
  const EntriesOfSetting where = entries_of(setting, entries);
  if (where.entries.empty()) return put(root, setting, value_of(setting));
  if (setting.values.size() > 1) {
    throw setting_error(setting, 1, "takes one value", "`lockstep sweep` takes several");
  }
  std::vector<Node> changed = entries;
  for (const std::size_t e : where.entries) {
    changed[e] = put(entries[e], setting, value_of(setting), where.from);
  }
  const Node list = *root.find("strategies");
  return root.with("strategies", list.with_elements(changed), root.key_location("strategies"));
}

}  // namespace

std::vector<Node> elements_of(const Node& map, const char* field) {
  const auto node = map.find(field);
  if (!node) return {};
  return node->kind() == Node::Kind::sequence ? node->elements() : std::vector{*node};
}

EntriesOfSetting entries_of(const Setting& setting, const std::vector<Node>& entries) {
  if (setting.steps.front().key != "strategies" || setting.steps.size() == 1) return {};
  const PathStep& step = setting.steps[1];
  if (step.index) {
    if (*step.index >= entries.size()) {
      throw setting_error(setting, step.column,
                          fmt::format("there is no strategy [{}]", *step.index),
                          entries.empty() ? "" : fmt::format("[0] to [{}]", entries.size() - 1));
    }
    return {2, {*step.index}};
  }
  EntriesOfSetting found{1, {}};
  std::vector<std::string> kinds;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const std::string kind = kind_of_entry(entries[e]);
    if (kind == step.key) found.entries.push_back(e);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (found.entries.empty()) {
    throw setting_error(setting, step.column, fmt::format("no strategy is {}", in_quotes(step.key)),
                        allowed_hint(step.key, kinds));
  }
  return found;
}

Node with_settings(const Node& scenario, const std::vector<std::string>& settings) {
  if (settings.empty() || scenario.kind() != Node::Kind::map) return scenario;
  Node root = scenario.without("measured");
  for (const std::string& text : settings) root = with_setting(root, parse_setting(text));
  return root;
}

}  // namespace lockstep
