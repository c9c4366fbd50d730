// The table of operators, joined from the tables of the ops_*.cpp files, and the helpers that all
// rules share. A new operator is added to the list at the end of its ops_*.cpp file.
#include "workload/ops.hpp"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace lockstep {

namespace {

// An operator has few arguments, so a linear search by name is fast enough.
std::size_t position(const std::vector<ArgumentSpec>& specs, std::string_view argument) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (argument == specs[i].name) return i;
  }
  assert(false && "the rule asks for an argument that its table row does not have");
  return 0;
}

}  // namespace

std::int64_t OpCall::integer(std::string_view argument) const {
  return integers[position(*specs, argument)];
}

bool OpCall::given(std::string_view argument) const {
  return integer(argument) != not_given;
}

const std::string& OpCall::word(std::string_view argument) const {
  return words[position(*specs, argument)];
}

// Records every evaluated argument as an attribute, from which the calibration builds real layers.
LayerWriter OpCall::layer() const {
  LayerWriter writer(step, name, kind, block, inputs);
  writer.sums_gradients_over_tensor(sums_gradients_over_tensor);
  for (std::size_t i = 0; specs != nullptr && i < specs->size(); ++i) {
    const ArgumentSpec& spec = (*specs)[i];
    if (spec.type != ArgumentType::word && integers[i] != not_given) {
      writer.attribute(spec.name, integers[i]);
    }
  }
  return writer;
}

OpCall OpCall::child(const std::string& suffix, const std::string& child_kind,
                     std::vector<Value> child_inputs) const {
  OpCall result{step, name + "." + suffix, child_kind, block, std::move(child_inputs)};
  return result;
}

const std::vector<OpSpec>& op_table() {
  static const std::vector<OpSpec> table = [] {
    std::vector<OpSpec> all;
    for (auto* group : {matmul_ops, norm_ops, elementwise_ops, pooling_ops, token_ops,
                        attention_ops, rotary_ops, window_ops, expert_ops}) {
      for (OpSpec& op : group()) all.push_back(std::move(op));
    }
    return all;
  }();
  return table;
}

const OpSpec* find_op(std::string_view name) {
  for (const OpSpec& op : op_table()) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

std::string shape_text(const Value& value) {
  return value.shape.empty() ? "a single number" : fmt::format("{}", fmt::join(value.shape, " x "));
}

void require_image(const OpCall& call) {
  if (call.input().is_image() && !call.input().tokens) return;
  throw ModelError(fmt::format("{} needs an image (channels x height x width), but gets {}",
                               call.kind, shape_text(call.input())));
}

void require_features(const OpCall& call) {
  const Value& x = call.input();
  if (!x.is_image() && !x.tokens && !x.shape.empty()) return;
  throw ModelError(
      fmt::format("{} works on the last dimension, but gets {}", call.kind, shape_text(x)),
      x.is_image() ? "put `flatten`, or `permute` for channels last, before it" : "");
}

}  // namespace lockstep
