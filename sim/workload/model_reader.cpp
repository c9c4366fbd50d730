// Reads the top level of a model file into a ModelFile: parameters, input, blocks, published
// values, the plan of tensor cuts. step_reader.cpp reads the lists of layers.
// Everything that can be checked without knowing sizes is checked here, and all mistakes of a file
// are reported at once: unknown operators, keys and arguments, expression syntax, blocks that use
// themselves.
#include "workload/model_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "core/units.hpp"
#include "core/yaml.hpp"
#include "workload/model_file.hpp"
#include "workload/step_reader.hpp"

namespace lockstep {

namespace {

constexpr int max_base_files = 8;
constexpr int max_block_depth = 32;
constexpr std::size_t max_names = 256;  // parameters of a model, blocks, arguments of a block

// Reads one file's mapping into `model`. A derived file (one with `base:`) overwrites parts of the
// model that was read from its base.
class ModelReader : FieldReader {
 public:
  using FieldReader::FieldReader;
  void read(const Node& root, ModelFile& model, bool derived);

 private:
  void read_input(const Node& node, ModelFile& model);
  void read_published(const Node& node, ModelFile& model);
  void read_tensor_plan(const Node& node, ModelFile& model);
  void read_parameters(const Node& node, ModelFile& model, bool derived);
  void read_blocks(const Node& node, ModelFile& model);
  void read_block_signature(const Node& node, ModelBlock& block);
  void check_recursion(const ModelFile& model);
};

// `input:`. A derived model may change the size of its base's input, and even its kind: if it gives
// an image or tokens, the other kind is removed.
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

// `published:`. Counts may be written with suffixes (25.6M); `source` is required.
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

// `tensor_parallel:`. The order of the three words is that of TensorCut, without `none`.
void ModelReader::read_tensor_plan(const Node& node, ModelFile& model) {
  if (node.kind() != Node::Kind::map || node.entries().size() > max_names) {
    fail(node, fmt::format("needs a map of at most {} patterns of layers to column, row or "
                           "vocabulary",
                           max_names));
    return;
  }
  static const std::vector<std::string> words{"column", "row", "vocabulary"};
  model.tensor_parallel.clear();
  for (const auto& [pattern, value] : node.entries()) {
    const std::string word = text(value);
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) {
      fail(value, fmt::format("{} is no way to cut a layer", in_quotes(word)),
           allowed_hint(word, words));
      continue;
    }
    model.tensor_parallel.emplace_back(
        pattern, static_cast<TensorCut>(1 + std::distance(words.begin(), found)));
  }
}

// `parameters:`, read in file order, because defaults may use earlier names. A derived model may
// only change parameters of its base, because the base's layers would not use a new one.
void ModelReader::read_parameters(const Node& node, ModelFile& model, bool derived) {
  if (node.kind() != Node::Kind::map) {
    fail(node, "needs a map of names to integer expressions");
    return;
  }
  if (node.entries().size() > max_names) {
    fail(node, fmt::format("more than {} parameters", max_names));
    return;
  }
  std::vector<std::string> known;
  for (const auto& parameter : model.parameters) known.push_back(parameter.first);
  for (const auto& [key, value] : node.entries()) {
    const auto found = std::find(known.begin(), known.end(), key);
    if (found != known.end()) {
      model.parameters[found - known.begin()].second = expression(value);
    } else if (derived) {
      fail(value, "the base model has no such parameter", allowed_hint(key, known));
    } else if (variable_name(value, key)) {
      model.parameters.emplace_back(key, expression(value));
    }
  }
}

// Name and arguments of one block, without its layers. An argument without a value is required.
void ModelReader::read_block_signature(const Node& node, ModelBlock& block) {
  if (is_builtin_step(block.name)) {
    fail(node, "a block cannot have the name of an operator or structure");
  }
  if (node.kind() != Node::Kind::map) {
    fail(node, "needs `layers:` and perhaps `arguments:`");
    return;
  }
  check_keys(node, {"arguments", "layers"});
  if (!node.find("layers")) fail(node, "a block needs `layers:`");
  const auto arguments = node.find("arguments");
  if (!arguments) return;
  if (arguments->kind() != Node::Kind::map || arguments->entries().size() > max_names) {
    fail(*arguments, fmt::format("needs a map of at most {} names to defaults", max_names));
    return;
  }
  for (const auto& [argument, fallback] : arguments->entries()) {
    variable_name(fallback, argument);
    std::optional<Expression> value;
    if (fallback.kind() != Node::Kind::null) value = expression(fallback);
    block.arguments.emplace_back(argument, value);
  }
}

void ModelReader::read_blocks(const Node& node, ModelFile& model) {
  if (node.kind() != Node::Kind::map || node.entries().size() > max_names) {
    fail(node, fmt::format("needs a map of at most {} names to {{arguments, layers}}", max_names));
    return;
  }
  // Reads the signatures first, so that blocks may use each other in any order.
  for (const auto& [key, value] : node.entries()) {
    ModelBlock block;
    block.name = key;
    block.at = value.error("");
    read_block_signature(value, block);
    model.blocks.push_back(std::move(block));
  }
  StepReader reader(diagnostics_, model.blocks);
  std::size_t index = 0;
  for (const auto& [key, value] : node.entries()) {
    if (const auto layers = value.find("layers")) {
      model.blocks[index].layers = reader.steps(*layers);
    }
    ++index;
  }
}

// Refuses blocks that use each other in a cycle or more than max_block_depth deep, because their
// expansion would never end. This is a depth-first search: an "open" block is on the current path,
// so reaching it closes a cycle. Stops at the first mistake.
void ModelReader::check_recursion(const ModelFile& model) {
  enum class Mark { fresh, open, closed };
  std::vector<Mark> marks(model.blocks.size(), Mark::fresh);
  const auto complain = [&](int block, const std::string& message) {
    Diagnostic diagnostic = model.blocks[block].at;
    diagnostic.message = message;
    diagnostics_.add(diagnostic);
    return false;
  };
  std::function<bool(int, int)> visit;
  const std::function<bool(const std::vector<ModelStep>&, int)> walk = [&](const auto& list,
                                                                           int depth) -> bool {
    for (const ModelStep& step : list) {
      if (step.block >= 0 && !visit(step.block, depth)) return false;
      for (const auto& body : step.bodies) {
        if (!walk(body, depth)) return false;
      }
    }
    return true;
  };
  visit = [&](int index, int depth) {
    const std::string& name = model.blocks[index].name;
    if (marks[index] == Mark::open) {
      return complain(index, fmt::format("block '{}' uses itself: a cycle", name));
    }
    if (depth > max_block_depth) {
      return complain(index, fmt::format("more than {} blocks use each other", max_block_depth));
    }
    if (marks[index] == Mark::closed) return true;
    marks[index] = Mark::open;
    const bool fine = walk(model.blocks[index].layers, depth + 1);
    marks[index] = Mark::closed;
    return fine;
  };
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (!visit(static_cast<int>(i), 1)) return;
  }
}

void ModelReader::read(const Node& root, ModelFile& model, bool derived) {
  if (root.kind() != Node::Kind::map) {
    fail(root, "a model file is a map with `layers:`");
    return;
  }
  std::vector<std::string> keys{"base",  "title",     "parameters",
                                "input", "published", "tensor_parallel"};
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
  if (const auto plan = root.find("tensor_parallel")) read_tensor_plan(*plan, model);
  if (derived) return;
  if (const auto blocks = root.find("blocks")) read_blocks(*blocks, model);
  const auto layers = root.find("layers");
  if (!layers) {
    fail(root, "a model needs `layers:`");
    return;
  }
  model.layers = StepReader(diagnostics_, model.blocks).steps(*layers);
  check_recursion(model);
}

// Reads a model, after the base that it names. Published values belong to one setting and are not
// inherited. `depth` counts bases, so that a cycle of files ends.
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
