// Readers of the parts of a model file: single fields, and the list of layers. Mistakes go to the
// Diagnostics; what is returned for a mistaken field is some harmless value.
#pragma once

#include <string>
#include <vector>

#include "core/yaml.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

class FieldReader {
 public:
  explicit FieldReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

 protected:
  void fail(const Node& node, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(node.error(message, hint));
  }
  void check_keys(const Node& node, const std::vector<std::string>& allowed);
  Expression expression(const Node& node);
  bool flag(const Node& node, bool fallback);
  std::string text(const Node& node);
  NameTemplate name(const Node& node);
  // A name for expressions: letters, digits, '_', and none of the reserved ones.
  bool variable_name(const Node& node, const std::string& name);

  Diagnostics& diagnostics_;
};

class StepReader : FieldReader {
 public:
  // `blocks` need only their names and arguments yet.
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

// Structures, operators and blocks share their names' space.
bool is_builtin_step(const std::string& name);

}  // namespace lockstep
