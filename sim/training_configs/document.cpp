// Reads the files of training programs into trees whose values have a line and a column. JSON is
// checked by nlohmann-json and then read as YAML, of which it is a subset except for tabs, because
// only the YAML reader knows lines and columns. TOML is read by toml++, YAML by the tolerant reader
// of core/yaml.hpp.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/file_text.hpp"
#include "training_configs/key_table.hpp"

namespace lockstep {
namespace {

// Replaces each tab outside of quotes by one blank, so that columns stay the same.
std::string without_tabs(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '\t') {
      text[i] = ' ';
    }
  }
  return text;
}

// Line and column of a byte, both from 1.
Location place_of_byte(const std::string& text, std::size_t byte, const std::string& path) {
  const std::size_t end = std::min(byte, text.size());
  const auto last = text.begin() + static_cast<std::ptrdiff_t>(end);
  const auto line = 1 + std::count(text.begin(), last, '\n');
  const std::size_t newline = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t start = newline == std::string::npos ? 0 : newline + 1;
  return {path, static_cast<int>(line), static_cast<int>(end - start) + 1};
}

// Throws ConfigError, located at the first byte that is not JSON.
void must_be_json(const std::string& text, const std::string& path) {
  try {
    // The callback drops each value, so that no document is built.
    const nlohmann::json nothing = nlohmann::json::parse(
        text, [](int, nlohmann::json::parse_event_t, nlohmann::json&) { return false; });
    static_cast<void>(nothing);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t byte = error.byte == 0 ? 0 : error.byte - 1;
    throw ConfigError(Diagnostic{place_of_byte(text, byte, path), "", "not valid JSON",
                                 "a template whose placeholders are still to be filled in?"});
  }
}

Location place(const toml::source_region& region, const std::string& path) {
  return {path, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

// The text of a scalar as YAML would write it; dates as in TOML.
std::string toml_text(const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  std::ostringstream stream;
  toml::node_view<const toml::node> view(value);
  if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
  stream << view;
  return stream.str();
}

// Converts a TOML value, with everything below it, to a tree. Keys get the order of the text,
// because toml++ sorts them by name.
Node toml_tree(const toml::node& value, const std::string& path) {
  const Location where = place(value.source(), path);
  const Node here = Node::plain("", where);
  if (const toml::array* list = value.as_array()) {
    std::vector<Node> elements;
    for (const toml::node& element : *list) elements.push_back(toml_tree(element, path));
    return here.with_elements(elements);
  }
  const toml::table* table = value.as_table();
  if (!table) return Node::plain(toml_text(value), where);
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (const auto& [key, inner] : *table) entries.emplace_back(&key, &inner);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.first->source().begin < b.first->source().begin;
  });
  Node map = here.empty_map();
  for (const auto& [key, inner] : entries) {
    map = map.with(std::string(key->str()), toml_tree(*inner, path), place(key->source(), path));
  }
  return map;
}

Node toml_document(const std::string& text, const std::string& path) {
  try {
    return toml_tree(toml::parse(text), path);
  } catch (const toml::parse_error& error) {
    throw ConfigError(Diagnostic{place(error.source(), path), "",
                                 fmt::format("not valid TOML: {}", error.description()), ""});
  }
}

// Whether a file without a known ending is JSON.
bool looks_like_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

}  // namespace

ConfigDocument config_document(const std::string& path) {
  return config_document(file_text(path, most_of_a_description), path);
}

ConfigDocument config_document(const std::string& text, const std::string& path) {
  ConfigDocument document;
  if (path.ends_with(".toml")) {
    document.root = toml_document(text, path);
  } else if (path.ends_with(".json") || (looks_like_json(text) && !path.ends_with("ml"))) {
    must_be_json(text, path);
    document.root = parse_foreign_yaml(without_tabs(text), path, document.notes);
  } else {
    document.root = parse_foreign_yaml(text, path, document.notes);
  }
  if (document.root.kind() != Node::Kind::map) {
    throw ConfigError(
        document.root.error(fmt::format("must be a map, not {}", kind_text(document.root)),
                            "is it a training config?"));
  }
  return document;
}

}  // namespace lockstep
