// Writes an imported config as a scenario file, with one line for each top-level field and its keys
// as a comment. Assumptions, approximations, refused keys and notes are comments at the head.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/data.hpp"
#include "core/describe_emit.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep {
namespace {

// A map under construction, with fields in the order in which they were added. A branch without
// inner branches is a value.
struct Branch {
  std::string value;
  std::vector<std::pair<std::string, Branch>> inner;

  // The inner branch of a key; created if it does not exist.
  Branch& at(const std::string& key) {
    for (auto& [name, branch] : inner) {
      if (name == key) return branch;
    }
    return inner.emplace_back(key, Branch{}).second;
  }
  // The map as YAML in flow style.
  std::string text() const {
    if (inner.empty()) return value;
    std::vector<std::string> parts;
    for (const auto& [name, branch] : inner) {
      const std::string inside = branch.text();
      parts.push_back(inside.empty() ? name + ": {}" : fmt::format("{}: {}", name, inside));
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
};

// A top-level field, and the sources of all values in it.
struct Line {
  Branch branch;
  std::vector<std::string> sources;
};

// Sets the value at a dotted path.
void put(Branch& root, std::string path, const std::string& value) {
  Branch* here = &root;
  while (true) {
    const std::size_t dot = path.find('.');
    here = &here->at(path.substr(0, dot));
    if (dot == std::string::npos) break;
    path = path.substr(dot + 1);
  }
  here->value = value;
}

// A comment with the first four keys from which a line is derived.
std::string comment_of(const Line& line) {
  std::vector<std::string> sources;
  for (const std::string& source : line.sources) {
    if (!source.empty() && std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(source);
  }
  if (sources.size() > 4) {
    sources.resize(4);
    sources.emplace_back("...");
  }
  return sources.empty() ? "" : fmt::format("  # {}", fmt::join(sources, ", "));
}

// The text of the scenario's fields. Fields with the same first part share a line.
std::string body(const ImportedConfig& config, bool comments) {
  std::vector<std::pair<std::string, Line>> lines;
  for (const ScenarioField& field : config.fields) {
    const std::string top = field.path.substr(0, field.path.find('.'));
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const auto& entry) { return entry.first == top; });
    if (line == lines.end()) line = lines.insert(lines.end(), {top, {}});
    put(line->second.branch, field.path, field.value);
    line->second.sources.push_back(field.source);
  }
  std::string text;
  for (auto& [top, line] : lines) {
    const std::string value = line.branch.at(top).text();
    const std::string comment = comments ? comment_of(line) : "";
    if (top == "strategies") {
      text += fmt::format("strategies:{}\n  - {}\n", comment, value);
    } else {
      text += fmt::format("{}: {}{}\n", top, value, comment);
    }
  }
  return text;
}

std::string title(const ImportedConfig& config) {
  return fmt::format("{} of {}", stem_of(config.files.front()), config.format);
}

}  // namespace

std::string scenario_text(const ImportedConfig& config) {
  std::string text = fmt::format("# From {} ({}).\n", fmt::join(config.files, ", "), config.format);
  for (const std::string& assumed : config.assumptions) text += "# assumed: " + assumed + "\n";
  for (const KeyAccount& account : config.keys) {
    if (account.fate == KeyFate::approximated || account.fate == KeyFate::refused)
      text += fmt::format("# {}: {}\n", account.key, account.meaning);
  }
  for (const std::string& note : config.notes) text += "# " + note + "\n";
  text += fmt::format("name: {}\n", fields::yaml_text(title(config)));
  for (const OpenQuestion& question : config.asked)
    text += fmt::format("# {}: asked for ({})\n", question.field, question.option);
  return text + body(config, true);
}

std::string askable_scenario_text(const ImportedConfig& config) {
  Diagnostics open;
  for (const OpenQuestion& question : config.asked)
    open.add({{config.files.front(), 0, 0}, question.field, "no file states it", question.option});
  open.throw_if_any();
  return fmt::format("name: {}\n{}", fields::yaml_text(title(config)), body(config, false));
}

}  // namespace lockstep
