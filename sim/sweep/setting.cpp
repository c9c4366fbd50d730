// Parses `PATH=VALUES` with its ranges and lists, and puts a value at a path of a YAML tree. Every
// parsed part stores its column in the text, so that messages can point at the wrong character.
#include "sweep/setting.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace lockstep {

namespace {

constexpr const char* grammar =
    "write PATH=VALUE,VALUE or PATH=A..B, A..B*FACTOR, A..B+STEP; for example gpus=1,2,4..64*2";

// A part of a setting's text, such as one value.
struct Piece {
  std::string text;
  std::size_t column = 0;  // in the text, from 0
};

// Throws the error for a column counted from 0.
[[noreturn]] void fail(const Setting& setting, std::size_t column, std::string message,
                       std::string hint = "") {
  throw setting_error(setting, static_cast<int>(column) + 1, std::move(message), std::move(hint));
}

// Splits a path at dots and brackets. Throws ConfigError for an empty name or a wrong index.
std::vector<PathStep> parse_path(const Setting& setting) {
  std::vector<PathStep> steps;
  const std::string& path = setting.path;
  std::size_t at = 0;
  while (at <= path.size()) {
    const std::size_t end = std::min(path.find_first_of(".[", at), path.size());
    if (end == at) fail(setting, at, "a name is missing in the path", grammar);
    steps.push_back({path.substr(at, end - at), std::nullopt, static_cast<int>(at) + 1});
    at = end;
    while (at < path.size() && path[at] == '[') {
      std::size_t index = 0;
      const char* first = path.data() + at + 1;
      const auto [stop, error] = std::from_chars(first, path.data() + path.size(), index);
      if (error != std::errc() || stop == path.data() + path.size() || *stop != ']') {
        fail(setting, at, "a place in a list is a number in brackets", "[0] is the first");
      }
      steps.push_back({"", index, static_cast<int>(at) + 1});
      at = static_cast<std::size_t>(stop - path.data()) + 1;
    }
    if (at == path.size()) break;
    if (path[at] != '.') fail(setting, at, "a dot is missing in the path", grammar);
    ++at;
  }
  return steps;
}

// Splits at commas outside quotes, brackets and braces.
std::vector<Piece> split(const std::string& text, std::size_t from) {
  std::vector<Piece> pieces{{"", from}};
  char quote = 0;
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && depth == 0 && c == ',') {
      pieces.push_back({"", i + 1});
      continue;
    }
    if (quote != 0) {
      if (quote == '"' && c == '\\' && i + 1 < text.size()) {
        pieces.back().text += text[i++];
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
    pieces.back().text += text[i];
  }
  return pieces;
}

// Returns the values of a setting. For the fields that a file gives as a list (gpus, strategies), a
// single list means its elements: the brackets are removed, and the columns in the text do not
// change.
std::vector<Piece> pieces_of(const Setting& setting, const std::string& text, std::size_t from) {
  std::vector<Piece> pieces = split(text, from);
  if (setting.path != "gpus" && setting.path != "strategies") return pieces;
  const std::size_t first = text.find_first_not_of(' ', from);
  const std::size_t last = text.find_last_not_of(' ');
  if (pieces.size() > 1 || first == std::string::npos || text[first] != '[' || text[last] != ']') {
    return pieces;
  }
  const std::string inner = text.substr(0, last);
  return inner.find_first_not_of(' ', first + 1) == std::string::npos ? pieces
                                                                      : split(inner, first + 1);
}

// A number with its unit.
struct Quantity {
  double number = 0;
  std::string unit;  // as written, with a blank before it
};

// Parses a number and its unit. Nothing if the text does not begin with a finite number.
std::optional<Quantity> parse_number(const std::string& text) {
  const std::size_t start = text.find_first_not_of(' ');
  if (start == std::string::npos) return std::nullopt;
  Quantity quantity;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + start, end, quantity.number);
  if (error != std::errc() || !std::isfinite(quantity.number)) return std::nullopt;
  quantity.unit.assign(stop, end);
  const std::size_t last = quantity.unit.find_last_not_of(' ');
  quantity.unit.resize(last == std::string::npos ? 0 : last + 1);
  return quantity;
}

// The values of a range A..B, A..B*FACTOR or A..B+STEP as texts; nothing if the text is no range.
std::optional<std::vector<std::string>> range(const Setting& setting, const Piece& piece) {
  const std::size_t dots = piece.text.find("..");
  if (dots == std::string::npos || piece.text.find_first_of("\"'[{") != std::string::npos) {
    return std::nullopt;
  }
  const std::size_t sign = piece.text.find_first_of("*+", dots + 2);
  // Parses a bound or step; `role` names it in messages.
  const auto number = [&](const std::string& text, const char* role) {
    const auto quantity = parse_number(text);
    if (!quantity) {
      fail(setting, piece.column,
           fmt::format("{} of the range is no number: {}", role, in_quotes(text)), grammar);
    }
    return *quantity;
  };
  const Quantity first = number(piece.text.substr(0, dots), "the beginning");
  const Quantity last = number(
      piece.text.substr(dots + 2, sign == std::string::npos ? sign : sign - dots - 2), "the end");
  const bool factor = sign != std::string::npos && piece.text[sign] == '*';
  const Quantity step = sign == std::string::npos ? Quantity{1, ""}
                                                  : number(piece.text.substr(sign + 1),
                                                           factor ? "the factor" : "the step");
  // Only the end needs a unit; if the beginning or the step has a unit, it must be the same.
  for (const Quantity* part : {&first, &step}) {
    if (part->unit.empty() || part->unit == last.unit) continue;
    fail(setting, piece.column,
         fmt::format("the range mixes units: {} and {}", in_quotes(part->unit),
                     in_quotes(last.unit)),
         "write both ends in one unit");
  }
  if (factor && !step.unit.empty()) fail(setting, piece.column, "a factor has no unit");
  if (factor && (step.number <= 1 || first.number <= 0)) {
    fail(setting, piece.column, "a factor is more than 1, and begins above 0");
  }
  if (!factor && step.number <= 0) fail(setting, piece.column, "a step is more than 0");
  if (first.number > last.number) {
    fail(setting, piece.column, "the range is empty: it ends before it begins", grammar);
  }
  std::vector<std::string> texts;
  const double slack = 1e-9 * std::abs(last.number);  // 0.1..0.3+0.1 must end with 0.3
  // Each value is computed from the first one, so that rounding errors do not add up.
  for (double value = first.number; value <= last.number + slack;) {
    if (texts.size() == most_values) {
      fail(setting, piece.column, fmt::format("the range has more than {} values", most_values));
    }
    texts.push_back(fmt::format("{:.12g}{}", value, last.unit));
    const auto count = static_cast<double>(texts.size());
    value =
        factor ? first.number * std::pow(step.number, count) : first.number + step.number * count;
  }
  return texts;
}

// Parses a value as YAML. The text is padded with blanks, so that columns in the value are columns
// in the setting.
Node flow_value(const Setting& setting, const std::string& text, std::size_t column) {
  return Node::parse_text(std::string(column, ' ') + text, setting.name);
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Implements put() recursively, for the steps of the path from index `at` on.
Node put_from(const Node& node, const Setting& setting, const Node& value, std::size_t at) {
  if (at == setting.steps.size()) return value;
  const PathStep& step = setting.steps[at];
  const auto column = static_cast<std::size_t>(step.column) - 1;
  if (step.index) {
    std::vector<Node> elements = node.elements();
    if (node.kind() != Node::Kind::sequence || *step.index >= elements.size()) {
      fail(setting, column,
           node.kind() == Node::Kind::sequence
               ? fmt::format("there is no [{}]: the list has {} elements", *step.index,
                             elements.size())
               : fmt::format("is {} in the file, not a list", kind_text(node)));
    }
    elements[*step.index] = put_from(elements[*step.index], setting, value, at + 1);
    return node.with_elements(elements);
  }
  Node map = node;
  // A bare name equal to the key (`- ddp` with strategies.ddp.x) stands for a map with defaults.
  if (node.kind() == Node::Kind::scalar && node.scalar() == step.key) {
    map = node.empty_map();
  } else if (node.kind() == Node::Kind::null) {
    map = node.empty_map();
  } else if (node.kind() != Node::Kind::map) {
    fail(setting, column,
         fmt::format("{} is {} in the file, which has no {}", in_quotes(node.path()),
                     kind_text(node), in_quotes(step.key)));
  }
  const Location where{setting.name, 1, step.column};
  const Node inner = map.find(step.key).value_or(value.empty_map());
  return map.with(step.key, put_from(inner, setting, value, at + 1), where);
}

}  // namespace

ConfigError setting_error(const Setting& setting, int column, std::string message,
                          std::string hint) {
  Diagnostic diagnostic;
  diagnostic.where = {setting.name, 1, column};
  diagnostic.field = setting.path;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  return ConfigError(std::move(diagnostic));
}

Setting parse_setting(const std::string& text) {
  Setting setting;
  setting.name = "--set " + text;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) fail(setting, 0, "has no '='", grammar);
  setting.path = text.substr(0, equals);
  setting.steps = parse_path(setting);
  for (const Piece& piece : pieces_of(setting, text, equals + 1)) {
    if (trimmed(piece.text).empty()) fail(setting, piece.column, "a value is missing", grammar);
    const std::size_t column = piece.column + piece.text.find_first_not_of(' ');
    if (const auto values = range(setting, piece)) {
      for (const std::string& value : *values) {
        const Location where{setting.name, 1, static_cast<int>(column) + 1};
        setting.values.push_back(Node::plain(value, where));
        setting.texts.push_back(value);
      }
    } else {
      setting.texts.push_back(trimmed(piece.text));
      setting.values.push_back(flow_value(setting, setting.texts.back(), column));
    }
    if (setting.values.size() > most_values) {
      fail(setting, piece.column, fmt::format("has more than {} values", most_values));
    }
  }
  return setting;
}

Node put(const Node& root, const Setting& setting, const Node& value, std::size_t from) {
  return put_from(root, setting, value, from);
}

}  // namespace lockstep
