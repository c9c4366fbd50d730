// Syntax tree of a model file (docs/model-format.md): a list of steps whose sizes are still
// expressions. model_reader.cpp fills it; expand.cpp turns it into layers once the parameters and
// the input size are known.
// A "step" in this file is one entry of a `layers:` list, not a training step.
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

// A layer's name that may hold expressions: "denselayer{i + 1}" renders to "denselayer3" for i = 2.
struct NameTemplate {
  std::vector<std::pair<std::string, std::optional<Expression>>> parts;  // text, then a value
  bool empty() const { return parts.empty(); }
  bool has_expression = false;
  std::string render(const Scope& scope) const;
};

// One argument of an operator or block. The type in the operator's ArgumentSpec determines which
// member holds the value.
struct StepArgument {
  Expression expression;
  bool given = false;
  std::int64_t millionths = 0;  // of a probability
  std::string word;
  Diagnostic at;  // place in the file; an error adds the message
};

// One entry of a `layers:` list: an operator, a use of a block, or a structure that contains
// further lists.
struct ModelStep {
  enum class Type { op, block, group, sequential, repeat, residual, dense, join };
  Type type = Type::op;
  std::string key;                      // operator, block or structure as written
  const OpSpec* op = nullptr;           // the operator of an `op` or a `join`
  int block = -1;                       // index of a block
  std::vector<StepArgument> arguments;  // by position in the operator's or block's arguments
  // Nested lists. group, sequential, repeat and dense have one; residual has body and shortcut;
  // join has the branches.
  std::vector<std::vector<ModelStep>> bodies;
  Expression count;   // repeat, dense
  std::string index;  // repeat, dense: the counter's name
  bool unit = true;   // repeat: whether iterations are blocks (FSDP units, checkpointed together)
  std::optional<bool> in_place;  // residual: `inplace:`; absent = in place for images only
  NameTemplate name;
  std::vector<std::string> from;   // `from:`; empty = the output of the previous step
  std::optional<Expression> when;  // `if:`; if it is 0, the step is left out
  Diagnostic at;
};

// A reusable list of layers with arguments, from `blocks:`.
struct ModelBlock {
  std::string name;
  std::vector<std::pair<std::string, std::optional<Expression>>> arguments;  // with their defaults
  std::vector<ModelStep> layers;
  Diagnostic at;
};

// A whole model file, with the contents of its `base:` merged in, except the published values.
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
  // The cut of layers over tensor ranks: patterns of layer names (`*` = any text), each with its
  // cut. The first pattern that fits a name applies.
  std::vector<std::pair<std::string, TensorCut>> tensor_parallel;
  std::optional<std::int64_t> published_parameters;
  std::optional<double> published_multiply_accumulates;
  std::string source;
};

// Names that the expander defines for every step (channels, height, ...). No parameter or argument
// may have such a name.
const std::vector<std::string>& reserved_names();

// Parses a model file from memory. `file_name` is used to locate errors and to find base models
// relative to it. Throws ConfigError with every mistake that can be found without expanding, or
// with the mistakes of the base.
ModelFile read_model_text(const std::string& text, const std::string& file_name);

}  // namespace lockstep
