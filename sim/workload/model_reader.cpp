// Reads model files. Everything that can be checked without knowing sizes is checked here, all
// mistakes of a file at once: unknown operators, keys and arguments, expression syntax, blocks that
// use themselves.
#include "workload/model_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "core/units.hpp"
#include "core/yaml.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

namespace {

constexpr int max_base_files = 8;

bool is_identifier(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

class ModelReader {
 public:
  explicit ModelReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void read(const Node& root, ModelFile& model, bool derived);

 private:
  void fail(const Node& node, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(node.error(message, hint));
  }
  void check_keys(const Node& node, const std::vector<std::string>& allowed);
  Expression expression(const Node& node);
  bool flag(const Node& node, bool fallback);
  std::string text(const Node& node);
  NameTemplate name(const Node& node);
  void read_input(const Node& node, ModelFile& model);
  void read_published(const Node& node, ModelFile& model);
  void read_parameters(const Node& node, ModelFile& model, bool derived);
  void read_blocks(const Node& node, ModelFile& model);
  void check_recursion(const ModelFile& model);

  std::vector<ModelStep> steps(const Node& node);
  ModelStep step(const Node& node);
  void read_step_body(const Node& node, ModelStep& result);
  void read_loop(const Node& node, ModelStep& result);
  void read_residual(const Node& node, ModelStep& result);
  void read_arguments(const Node& node, ModelStep& result);
  void read_argument(const Node& node, const ArgumentSpec& spec, StepArgument& result);
  void read_block_arguments(const Node& node, const ModelBlock& block, ModelStep& result);
  std::vector<std::string> step_keys() const;

  Diagnostics& diagnostics_;
  std::vector<ModelBlock> blocks_;
};

const std::vector<std::pair<std::string, ModelStep::Type>>& structures() {
  using T = ModelStep::Type;
  static const std::vector<std::pair<std::string, T>> list{{"group", T::group},
                                                           {"sequential", T::sequential},
                                                           {"repeat", T::repeat},
                                                           {"residual", T::residual},
                                                           {"dense", T::dense}};
  return list;
}

void ModelReader::check_keys(const Node& node, const std::vector<std::string>& allowed) {
  for (const auto& [key, value] : node.entries()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    Diagnostic diagnostic = value.error("unknown key", allowed_hint(key, allowed));
    diagnostic.where = node.key_location(key);
    diagnostics_.add(diagnostic);
  }
}

Expression ModelReader::expression(const Node& node) {
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

bool ModelReader::flag(const Node& node, bool fallback) {
  if (node.scalar() == "true") return true;
  if (node.scalar() == "false") return false;
  fail(node, "needs true or false");
  return fallback;
}

std::string ModelReader::text(const Node& node) {
  if (node.kind() != Node::Kind::scalar || node.scalar().empty()) fail(node, "needs a text");
  return node.scalar();
}

NameTemplate ModelReader::name(const Node& node) {
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

void ModelReader::read_input(const Node& node, ModelFile& model) {
  if (node.kind() != Node::Kind::map) {
    fail(node, "needs image: [channels, height, width] or tokens: length");
    return;
  }
  check_keys(node, {"image", "tokens", "classes"});
  if (const auto image = node.find("image")) {
    const std::vector<Node> sizes = image->elements();
    if (sizes.size() != 3) {
      fail(*image, "needs three sizes: [channels, height, width]");
      return;
    }
    model.image.clear();
    for (const Node& size : sizes) model.image.push_back(expression(size));
    model.tokens.reset();
  }
  if (const auto tokens = node.find("tokens")) {
    if (node.find("image")) {
      fail(*tokens, "a model reads an image or tokens, not both");
      return;
    }
    model.tokens = expression(*tokens);
    model.image.clear();
  }
  if (const auto classes = node.find("classes")) model.classes = expression(*classes);
}

void ModelReader::read_published(const Node& node, ModelFile& model) {
  if (node.kind() != Node::Kind::map) {
    fail(node, "needs parameters, multiply_accumulates, source");
    return;
  }
  check_keys(node, {"parameters", "multiply_accumulates", "source"});
  const auto number = [&](const Node& value) {
    try {
      return parse_quantity(value.scalar(), Dimension::count);
    } catch (const UnitError& error) {
      fail(value, error.what());
      return 0.0;
    }
  };
  if (const auto value = node.find("parameters")) {
    const double count = number(*value);
    if (count < 0 || count > 9e15 || count != std::floor(count)) {
      fail(*value, "needs a whole number of parameters");
    } else {
      model.published_parameters = static_cast<std::int64_t>(count);
    }
  }
  if (const auto value = node.find("multiply_accumulates")) {
    model.published_multiply_accumulates = number(*value);
  }
  if (const auto value = node.find("source")) {
    model.source = text(*value);
  } else {
    fail(node, "published figures need a `source`");
  }
}

void ModelReader::read_parameters(const Node& node, ModelFile& model, bool derived) {
  if (node.kind() != Node::Kind::map) {
    fail(node, "needs a map of names to integer expressions");
    return;
  }
  std::vector<std::string> known;
  for (const auto& parameter : model.parameters) known.push_back(parameter.first);
  const auto& reserved = reserved_names();
  for (const auto& [key, value] : node.entries()) {
    const auto found = std::find(known.begin(), known.end(), key);
    if (found != known.end()) {
      model.parameters[found - known.begin()].second = expression(value);
    } else if (derived) {
      fail(value, "the base model has no such parameter", allowed_hint(key, known));
    } else if (!is_identifier(key)) {
      fail(value, "a parameter's name needs letters, digits and '_'");
    } else if (std::find(reserved.begin(), reserved.end(), key) != reserved.end()) {
      fail(value,
           fmt::format("'{}' is what every step knows its input by; choose another name", key));
    } else {
      model.parameters.emplace_back(key, expression(value));
    }
  }
}

void ModelReader::read_blocks(const Node& node, ModelFile& model) {
  if (node.kind() != Node::Kind::map) {
    fail(node, "needs a map of block names to {arguments, layers}");
    return;
  }
  const auto& reserved = reserved_names();
  // First the signatures, so that blocks may use each other in any order.
  std::vector<Node> bodies;
  for (const auto& [key, value] : node.entries()) {
    ModelBlock block;
    block.name = key;
    block.at = value.error("");
    const bool structure = std::any_of(structures().begin(), structures().end(),
                                       [&, &word = key](const auto& s) { return s.first == word; });
    if (find_op(key) != nullptr || structure) {
      fail(value, "a block cannot have the name of an operator or structure");
    }
    if (value.kind() != Node::Kind::map) {
      fail(value, "needs `layers:` and perhaps `arguments:`");
      continue;
    }
    check_keys(value, {"arguments", "layers"});
    if (const auto arguments = value.find("arguments")) {
      if (arguments->kind() != Node::Kind::map)
        fail(*arguments, "needs a map of names to defaults");
      for (const auto& [argument, fallback] : arguments->entries()) {
        if (std::find(reserved.begin(), reserved.end(), argument) != reserved.end() ||
            !is_identifier(argument)) {
          fail(fallback, fmt::format("'{}' cannot be an argument's name", argument));
        }
        std::optional<Expression> value_or_none;
        if (fallback.kind() != Node::Kind::null) value_or_none = expression(fallback);
        block.arguments.emplace_back(argument, value_or_none);
      }
    }
    const auto layers = value.find("layers");
    if (!layers) fail(value, "a block needs `layers:`");
    bodies.push_back(layers.value_or(Node()));
    blocks_.push_back(std::move(block));
  }
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    if (bodies[i].kind() != Node::Kind::null) blocks_[i].layers = steps(bodies[i]);
  }
  model.blocks = blocks_;
}

void ModelReader::check_recursion(const ModelFile& model) {
  enum class Mark { fresh, open, closed };
  std::vector<Mark> marks(model.blocks.size(), Mark::fresh);
  std::function<bool(int)> visit;
  const std::function<bool(const std::vector<ModelStep>&)> walk = [&](const auto& list) -> bool {
    for (const ModelStep& step : list) {
      if (step.block >= 0 && !visit(step.block)) return false;
      for (const auto& body : step.bodies) {
        if (!walk(body)) return false;
      }
    }
    return true;
  };
  visit = [&](int index) {
    if (marks[index] == Mark::closed) return true;
    if (marks[index] == Mark::open) {
      Diagnostic diagnostic = model.blocks[index].at;
      diagnostic.message = fmt::format("block '{}' uses itself: a cycle", model.blocks[index].name);
      diagnostics_.add(diagnostic);
      return false;
    }
    marks[index] = Mark::open;
    const bool fine = walk(model.blocks[index].layers);
    marks[index] = Mark::closed;
    return fine;
  };
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (!visit(static_cast<int>(i))) return;
  }
}

std::vector<std::string> ModelReader::step_keys() const {
  std::vector<std::string> keys;
  for (const OpSpec& op : op_table()) keys.emplace_back(op.name);
  for (const auto& structure : structures()) keys.push_back(structure.first);
  for (const ModelBlock& block : blocks_) keys.push_back(block.name);
  return keys;
}

std::vector<ModelStep> ModelReader::steps(const Node& node) {
  std::vector<ModelStep> result;
  if (node.kind() == Node::Kind::null) return result;
  if (node.kind() != Node::Kind::sequence) {
    fail(node, "needs a list of layers");
    return result;
  }
  for (const Node& element : node.elements()) result.push_back(step(element));
  return result;
}

ModelStep ModelReader::step(const Node& node) {
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

void ModelReader::read_step_body(const Node& node, ModelStep& result) {
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

void ModelReader::read_loop(const Node& node, ModelStep& result) {
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
    if (!is_identifier(result.index))
      fail(*index, "a counter's name needs letters, digits and '_'");
  }
  if (const auto unit = node.find("unit")) result.unit = flag(*unit, true);
  const auto layers = node.find("layers");
  if (!layers) fail(node, fmt::format("{} needs `layers:`", result.key));
  result.bodies.push_back(layers ? steps(*layers) : std::vector<ModelStep>());
}

void ModelReader::read_residual(const Node& node, ModelStep& result) {
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

void ModelReader::read_argument(const Node& node, const ArgumentSpec& spec, StepArgument& result) {
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

void ModelReader::read_arguments(const Node& node, ModelStep& result) {
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

void ModelReader::read_block_arguments(const Node& node, const ModelBlock& block,
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

void ModelReader::read(const Node& root, ModelFile& model, bool derived) {
  if (root.kind() != Node::Kind::map) {
    fail(root, "a model file is a map with `layers:`");
    return;
  }
  std::vector<std::string> keys{"base", "title", "parameters", "input", "published"};
  if (!derived) keys.insert(keys.end(), {"blocks", "layers"});
  check_keys(root, keys);
  if (const auto title = root.find("title")) model.title = text(*title);
  if (const auto parameters = root.find("parameters")) read_parameters(*parameters, model, derived);
  if (const auto input = root.find("input")) {
    read_input(*input, model);
  } else if (!derived) {
    fail(root, "a model needs `input:`");
  }
  if (const auto published = root.find("published")) read_published(*published, model);
  if (derived) return;
  if (const auto blocks = root.find("blocks")) read_blocks(*blocks, model);
  const auto layers = root.find("layers");
  if (!layers) {
    fail(root, "a model needs `layers:`");
    return;
  }
  model.layers = steps(*layers);
  check_recursion(model);
}

ModelFile read_node(const Node& root, const std::string& file_name, int depth) {
  ModelFile model;
  const std::optional<Node> base =
      root.kind() == Node::Kind::map ? root.find("base") : std::nullopt;
  if (base) {
    if (depth >= max_base_files) {
      throw ConfigError(base->error("the chain of base models is too long: perhaps a cycle"));
    }
    const std::string path = find_model_file(base->scalar(), file_name);
    if (path.empty()) {
      throw ConfigError(base->error(fmt::format("there is no model '{}'", base->scalar()),
                                    allowed_hint(base->scalar(), known_models())));
    }
    model = read_node(Node::parse_file(path), path, depth + 1);
    model.published_parameters.reset();
    model.published_multiply_accumulates.reset();
    model.source.clear();
  }
  model.path = file_name;
  model.name = std::filesystem::path(file_name).stem().string();
  Diagnostics diagnostics;
  ModelReader(diagnostics).read(root, model, base.has_value());
  diagnostics.throw_if_any();
  return model;
}

}  // namespace

const std::vector<std::string>& reserved_names() {
  static const std::vector<std::string> names{"channels", "height", "width", "tokens", "classes"};
  return names;
}

std::string NameTemplate::render(const Scope& scope) const {
  std::string result;
  for (const auto& [text, value] : parts) {
    result += text;
    if (value) result += fmt::format("{}", value->evaluate(scope));
  }
  return result;
}

ModelFile read_model_text(const std::string& text, const std::string& file_name) {
  return read_node(Node::parse_text(text, file_name), file_name, 0);
}

ModelFile read_model_file(const std::string& path) {
  return read_node(Node::parse_file(path), path, 0);
}

}  // namespace lockstep
