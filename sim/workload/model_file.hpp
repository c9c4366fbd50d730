// A model file as read (docs/model-format.md): steps whose sizes are still expressions. expand.cpp
// turns it into layers once the parameters and the input are known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "workload/expression.hpp"
#include "workload/ops.hpp"

namespace lockstep {

// A name that may hold expressions: "denselayer{i + 1}".
struct NameTemplate {
  std::vector<std::pair<std::string, std::optional<Expression>>> parts;  // text, then a value
  bool empty() const { return parts.empty(); }
  bool has_expression = false;
  std::string render(const Scope& scope) const;
};

struct StepArgument {
  Expression expression;
  bool given = false;
  std::int64_t millionths = 0;  // of a probability
  std::string word;
  Diagnostic at;  // where it stands; the message is filled in when something is wrong
};

struct ModelStep {
  enum class Type { op, block, group, sequential, repeat, residual, dense, join };
  Type type = Type::op;
  std::string key;             // operator, block or structure as written
  const OpSpec* op = nullptr;  // of an operator or join
  int block = -1;              // of a block: its index
  std::vector<StepArgument> arguments;
  std::vector<std::vector<ModelStep>>
      bodies;         // repeat, group: one; residual: body, shortcut; join: branches
  Expression count;   // repeat, dense
  std::string index;  // repeat, dense: the counter's name
  bool unit = true;   // repeat: iterations are blocks (FSDP units, checkpointed together)
  std::optional<bool> in_place;  // residual
  NameTemplate name;
  std::vector<std::string> from;
  std::optional<Expression> when;
  Diagnostic at;
};

struct ModelBlock {
  std::string name;
  std::vector<std::pair<std::string, std::optional<Expression>>> arguments;  // with their defaults
  std::vector<ModelStep> layers;
  Diagnostic at;
};

struct ModelFile {
  std::string name;  // the file's stem
  std::string title;
  std::string path;
  std::vector<std::pair<std::string, Expression>> parameters;  // in file order
  std::vector<Expression> image;     // {channels, height, width}; empty for token models
  std::optional<Expression> tokens;  // default sequence length
  std::optional<Expression> classes;
  std::vector<ModelBlock> blocks;
  std::vector<ModelStep> layers;
  // How layers may be cut over tensor ranks: patterns of names (`*` = any text), the first that fits.
  std::vector<std::pair<std::string, TensorCut>> tensor_parallel;
  std::optional<std::int64_t> published_parameters;
  std::optional<double> published_multiply_accumulates;
  std::string source;
};

// Names that the expander defines for every step; parameters and arguments cannot be called so.
const std::vector<std::string>& reserved_names();

// Throws ConfigError with every mistake that can be seen without expanding.
ModelFile read_model_text(const std::string& text, const std::string& file_name);

}  // namespace lockstep
