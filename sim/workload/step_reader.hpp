// Readers of the parts of a model file: single fields, and lists of layers. model_reader.cpp uses
// both.
// A mistake is added to the Diagnostics, and reading continues with a harmless value, so that one
// run reports all mistakes of a file. The caller must check the Diagnostics before it uses a
// result.
#pragma once

#include <string>
#include <vector>

#include "core/yaml.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

// Reads scalar fields of any part of a model file.
class FieldReader {
 public:
  explicit FieldReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

 protected:
  void fail(const Node& node, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(node.error(message, hint));
  }
  // Reports each key of the map that is not allowed, with the nearest allowed key.
  void check_keys(const Node& node, const std::vector<std::string>& allowed);
  Expression expression(const Node& node);  // 1 after a mistake
  bool flag(const Node& node, bool fallback);
  std::string text(const Node& node);
  NameTemplate name(const Node& node);
  // Whether expressions can use `name`: it consists of letters, digits and '_', does not begin with
  // a digit, and is not reserved. Reports a mistake at `node`.
  bool variable_name(const Node& node, const std::string& name);

  Diagnostics& diagnostics_;
};

// Reads a `layers:` list, including all lists nested in it, into ModelSteps.
class StepReader : FieldReader {
 public:
  // `blocks`: the blocks that a step may use. Only their names and arguments are read, so their
  // layers may still be empty.
  // REQUIRES: both arguments outlive the reader.
  StepReader(Diagnostics& diagnostics, const std::vector<ModelBlock>& blocks)
      : FieldReader(diagnostics), blocks_(blocks) {}
  std::vector<ModelStep> steps(const Node& node);

 private:
  ModelStep step(const Node& node);
  void read_step_body(const Node& node, ModelStep& result);
  void read_loop(const Node& node, ModelStep& result);
  void read_residual(const Node& node, ModelStep& result);
  void read_arguments(const Node& node, ModelStep& result);
  void read_argument(const Node& node, const ArgumentSpec& spec, StepArgument& result);
  void read_block_arguments(const Node& node, const ModelBlock& block, ModelStep& result);
  std::vector<std::string> step_keys() const;

  const std::vector<ModelBlock>& blocks_;
};

// Whether `name` is an operator or a structure. A block must not have such a name, because the key
// of a step may be any of the three.
bool is_builtin_step(const std::string& name);

}  // namespace lockstep
