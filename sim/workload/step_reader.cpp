// Reads one entry of a `layers:` list into a ModelStep: the operator, block or structure, its
// arguments as expressions, its name, inputs and condition. Sizes are not evaluated here;
// expand.cpp does that for each use of the step.
#include "workload/step_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/units.hpp"

namespace lockstep {

namespace {

// Keys of a step that are neither an operator nor a block.
const std::vector<std::pair<std::string, ModelStep::Type>>& structures() {
  using T = ModelStep::Type;
  static const std::vector<std::pair<std::string, T>> list{{"group", T::group},
                                                           {"sequential", T::sequential},
                                                           {"repeat", T::repeat},
                                                           {"residual", T::residual},
                                                           {"dense", T::dense}};
  return list;
}
}  // namespace

void FieldReader::check_keys(const Node& node, const std::vector<std::string>& allowed) {
  for (const auto& [key, value] : node.entries()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    Diagnostic diagnostic = value.error("unknown key", allowed_hint(key, allowed));
    diagnostic.where = node.key_location(key);
    diagnostics_.add(diagnostic);
  }
}

Expression FieldReader::expression(const Node& node) {
  if (node.kind() != Node::Kind::scalar) {
    fail(node, "needs an integer expression");
    return Expression(1);
  }
  try {
    return Expression::parse(node.scalar());
  } catch (const ModelError& error) {
    fail(node, error.what(), error.hint);
    return Expression(1);
  }
}

bool FieldReader::flag(const Node& node, bool fallback) {
  if (node.scalar() == "true") return true;
  if (node.scalar() == "false") return false;
  fail(node, "needs true or false");
  return fallback;
}

std::string FieldReader::text(const Node& node) {
  if (node.kind() != Node::Kind::scalar || node.scalar().empty()) fail(node, "needs a text");
  return node.scalar();
}

// Splits "stage{i}.conv" into texts and the expressions between braces. Each part is the text
// before an expression together with that expression.
NameTemplate FieldReader::name(const Node& node) {
  NameTemplate result;
  std::string rest = text(node);
  if (rest.size() > 200) {
    fail(node, "the name is too long");
    return result;
  }
  while (!rest.empty()) {
    const std::size_t open = rest.find('{');
    const std::size_t close = rest.find('}');
    if (open == std::string::npos && close == std::string::npos) {
      result.parts.emplace_back(rest, std::nullopt);
      return result;
    }
    if (open == std::string::npos || close == std::string::npos || close < open) {
      fail(node, "'{' and '}' do not match in the name");
      return result;
    }
    try {
      result.parts.emplace_back(rest.substr(0, open),
                                Expression::parse(rest.substr(open + 1, close - open - 1)));
    } catch (const ModelError& error) {
      fail(node, error.what(), error.hint);
    }
    result.has_expression = true;
    rest = rest.substr(close + 1);
  }
  return result;
}

bool FieldReader::variable_name(const Node& node, const std::string& name) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  const auto& reserved = reserved_names();
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ||
      !std::all_of(name.begin(), name.end(), letter)) {
    fail(node, fmt::format("'{}' is no name: it needs letters, digits and '_'", name));
  } else if (std::find(reserved.begin(), reserved.end(), name) != reserved.end()) {
    fail(node, fmt::format("'{}' is the name of every step's input; choose another name", name));
  } else {
    return true;
  }
  return false;
}

// All names that a step's key may have, for the hint of a misspelled one.
std::vector<std::string> StepReader::step_keys() const {
  std::vector<std::string> keys;
  for (const OpSpec& op : op_table()) keys.emplace_back(op.name);
  for (const auto& structure : structures()) keys.push_back(structure.first);
  for (const ModelBlock& block : blocks_) keys.push_back(block.name);
  return keys;
}

std::vector<ModelStep> StepReader::steps(const Node& node) {
  std::vector<ModelStep> result;
  if (node.kind() == Node::Kind::null) return result;
  if (node.kind() != Node::Kind::sequence) {
    fail(node, "needs a list of layers");
    return result;
  }
  for (const Node& element : node.elements()) result.push_back(step(element));
  return result;
}

// A step is a bare name ("relu"), or a map with one key that is the operator, block or structure,
// and the optional keys name, from and if. The error location of a step is the place of that one
// key.
ModelStep StepReader::step(const Node& node) {
  ModelStep result;
  result.at = node.error("");
  if (node.kind() == Node::Kind::scalar) {
    result.key = node.scalar();
    read_step_body(Node(), result);
    return result;
  }
  if (node.kind() != Node::Kind::map) {
    fail(node, "a layer is a name, or a map such as {conv: {...}, name: conv1}");
    return result;
  }
  std::optional<Node> body;
  for (const auto& [key, value] : node.entries()) {
    if (key == "name") {
      result.name = name(value);
    } else if (key == "if") {
      result.when = expression(value);
    } else if (key == "from") {
      if (value.kind() == Node::Kind::sequence) {
        for (const Node& element : value.elements()) result.from.push_back(text(element));
      } else {
        result.from.push_back(text(value));
      }
    } else if (body) {
      Diagnostic diagnostic =
          value.error(fmt::format("one layer cannot be both '{}' and '{}'", result.key, key),
                      "allowed beside the operator: name, from, if");
      diagnostic.where = node.key_location(key);
      diagnostics_.add(diagnostic);
    } else {
      result.key = key;
      body = value;
      result.at = value.error("");
      result.at.where = node.key_location(key);
    }
  }
  if (!body) {
    fail(node, "a layer needs an operator, a block or a structure");
    return result;
  }
  read_step_body(*body, result);
  return result;
}

// Reads the value of a step's key. Structures are looked up first, then blocks, then operators; no
// name can be two of these, because blocks must not have the names of the others
// (is_builtin_step()).
void StepReader::read_step_body(const Node& node, ModelStep& result) {
  using T = ModelStep::Type;
  for (const auto& [word, type] : structures()) {
    if (word != result.key) continue;
    result.type = type;
    if (type == T::repeat || type == T::dense) {
      read_loop(node, result);
    } else if (type == T::residual) {
      read_residual(node, result);
    } else {
      result.bodies.push_back(steps(node));
      if (type == T::sequential && result.name.empty()) {
        result.at.message = "sequential numbers its layers, so it needs a `name:`";
        diagnostics_.add(result.at);
      }
    }
    return;
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].name != result.key) continue;
    result.type = T::block;
    result.block = static_cast<int>(i);
    read_block_arguments(node, blocks_[i], result);
    return;
  }
  result.op = find_op(result.key);
  if (result.op == nullptr) {
    result.at.message = fmt::format("unknown operator or block '{}'", result.key);
    result.at.hint = allowed_hint(result.key, step_keys());
    diagnostics_.add(result.at);
    return;
  }
  // An operator of several inputs may have a list of branches in place of arguments: `add: [[...],
  // [...]]`.
  const bool joins = result.op->max_inputs > 1 && result.key != "attention";
  if (joins && node.kind() == Node::Kind::sequence) {
    result.type = T::join;
    for (const Node& branch : node.elements()) result.bodies.push_back(steps(branch));
    if (result.bodies.size() < result.op->min_inputs ||
        result.bodies.size() > result.op->max_inputs) {
      fail(node, fmt::format("{} joins {} to {} branches, not {}", result.key,
                             result.op->min_inputs, result.op->max_inputs, result.bodies.size()));
    }
    result.arguments.resize(result.op->arguments.size());
    return;
  }
  read_arguments(node, result);
}

// The fields of `repeat:` and `dense:`. The counter is called `i` unless `index:` names it.
void StepReader::read_loop(const Node& node, ModelStep& result) {
  result.index = "i";
  if (node.kind() != Node::Kind::map) {
    fail(node, fmt::format("{} needs {{count: ..., layers: [...]}}", result.key));
    return;
  }
  std::vector<std::string> allowed{"count", "index", "layers"};
  if (result.type == ModelStep::Type::repeat) allowed.emplace_back("unit");
  check_keys(node, allowed);
  if (const auto count = node.find("count")) {
    result.count = expression(*count);
  } else {
    fail(node, fmt::format("{} needs `count:`", result.key));
  }
  if (const auto index = node.find("index")) {
    result.index = text(*index);
    variable_name(*index, result.index);
  }
  if (const auto unit = node.find("unit")) result.unit = flag(*unit, true);
  const auto layers = node.find("layers");
  if (!layers) fail(node, fmt::format("{} needs `layers:`", result.key));
  result.bodies.push_back(layers ? steps(*layers) : std::vector<ModelStep>());
}

// `residual:` is a list of layers, or a map with the list and its shortcut. An empty shortcut is
// the identity.
void StepReader::read_residual(const Node& node, ModelStep& result) {
  if (node.kind() != Node::Kind::map) {
    result.bodies.push_back(steps(node));
    result.bodies.emplace_back();
    return;
  }
  check_keys(node, {"layers", "shortcut", "inplace"});
  const auto layers = node.find("layers");
  if (!layers) fail(node, "residual needs `layers:`");
  result.bodies.push_back(layers ? steps(*layers) : std::vector<ModelStep>());
  const auto shortcut = node.find("shortcut");
  result.bodies.push_back(shortcut ? steps(*shortcut) : std::vector<ModelStep>());
  if (const auto in_place = node.find("inplace")) result.in_place = flag(*in_place, true);
}

// Probabilities are stored in millionths, rounded up. Rounded down, a tiny one would become 0, and
// a dropout with 0 is left out.
void StepReader::read_argument(const Node& node, const ArgumentSpec& spec, StepArgument& result) {
  result.given = true;
  result.at = node.error("");
  switch (spec.type) {
    case ArgumentType::integer:
    case ArgumentType::flag:
      result.expression = expression(node);
      return;
    case ArgumentType::probability:
      try {
        const double value = parse_quantity(node.scalar(), Dimension::fraction);
        if (value < 0 || value >= 1) {
          fail(node, "a probability lies in 0 <= p < 1");
        } else {
          result.millionths = static_cast<std::int64_t>(std::ceil(value * 1e6));
        }
      } catch (const UnitError& error) {
        fail(node, error.what());
      }
      return;
    case ArgumentType::word:
      result.word = text(node);
      if (!spec.words.empty() &&
          std::find(spec.words.begin(), spec.words.end(), result.word) == spec.words.end()) {
        fail(node, fmt::format("'{}' is not possible here", result.word),
             allowed_hint(result.word, spec.words));
      }
      return;
  }
}

void StepReader::read_arguments(const Node& node, ModelStep& result) {
  const std::vector<ArgumentSpec>& specs = result.op->arguments;
  result.arguments.resize(specs.size());
  if (node.kind() == Node::Kind::scalar && !specs.empty()) {
    read_argument(node, specs[0], result.arguments[0]);  // `linear: 10` is `linear: {out: 10}`
  } else if (node.kind() == Node::Kind::map) {
    std::vector<std::string> names;
    for (const ArgumentSpec& spec : specs) names.emplace_back(spec.name);
    check_keys(node, names);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (const auto value = node.find(specs[i].name)) {
        read_argument(*value, specs[i], result.arguments[i]);
      }
    }
  } else if (node.kind() != Node::Kind::null) {
    fail(node, fmt::format("{} needs its arguments as a map", result.key));
    return;
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].required || result.arguments[i].given) continue;
    result.at.message = fmt::format("{} needs `{}:`", result.key, specs[i].name);
    diagnostics_.add(result.at);
  }
}

void StepReader::read_block_arguments(const Node& node, const ModelBlock& block,
                                      ModelStep& result) {
  result.arguments.resize(block.arguments.size());
  std::vector<std::string> names;
  for (const auto& argument : block.arguments) names.push_back(argument.first);
  if (node.kind() == Node::Kind::map) {
    check_keys(node, names);
  } else if (node.kind() != Node::Kind::null) {
    fail(node, fmt::format("block '{}' needs its arguments as a map", block.name));
    return;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const auto value = node.find(names[i])) {
      result.arguments[i].given = true;
      result.arguments[i].at = value->error("");
      result.arguments[i].expression = expression(*value);
    } else if (!block.arguments[i].second) {
      result.at.message = fmt::format("block '{}' needs `{}:`", block.name, names[i]);
      diagnostics_.add(result.at);
    }
  }
}

bool is_builtin_step(const std::string& name) {
  const auto& list = structures();
  return find_op(name) != nullptr ||
         std::any_of(list.begin(), list.end(),
                     [&](const auto& structure) { return structure.first == name; });
}

}  // namespace lockstep
