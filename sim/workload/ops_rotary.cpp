// Rules of rotary position embedding (Su et al. 2021), and of DeepSeek's keys, a part of which all
// heads share. Both work on sequences of tokens x features, in which the heads are adjacent ranges
// of the features.
#include <fmt/format.h>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// x * cos + rotate_half(x) * sin, as transformers computes it: five kernels in forward and five in
// backward. cos and sin are tables of the model and the operator is linear in x, so backward needs
// no saved tensor.
Value rotary(const OpCall& call) {
  const Value& x = call.input();
  if (!x.is_sequence()) throw ModelError("rotary needs a sequence (tokens x features)");
  const std::int64_t heads = call.integer("heads");
  if (x.shape[1] % heads != 0) {
    throw ModelError(fmt::format("{} features are not divisible by {} heads", x.shape[1], heads));
  }
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const double bytes = step.bytes(x);
  const auto count = static_cast<double>(step.elements(x));
  const Value y = layer.output(x.shape, x.element_bytes);
  layer.views(4, 4);  // into heads, two halves
  const auto run = [&](bool forward) {
    const auto kernel = [&](KernelKind kind, double read, double written, double flops) {
      if (forward) {
        layer.forward(kind, read, written, flops);
      } else {
        layer.backward(kind, read, written, flops);
      }
    };
    kernel(KernelKind::elementwise, bytes, bytes, count);              // * cos
    kernel(KernelKind::elementwise, bytes / 2, bytes / 2, count / 2);  // negate a half
    kernel(KernelKind::copy, bytes, bytes, 0);                         // halves swapped
    kernel(KernelKind::elementwise, bytes, bytes, count);              // * sin
    kernel(KernelKind::elementwise, 2 * bytes, bytes, count);          // sum
  };
  run(true);
  if (layer.backward_needed()) run(false);
  layer.workspace(2 * bytes, 2 * bytes);
  return layer.done(y);
}

// Appends the features of the second input to every head of the first. They are the part of a key
// that all heads share (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.3). Backward sums the gradient
// of the shared part over the heads.
Value append_to_heads(const OpCall& call) {
  const Value& heads = call.inputs[0];
  const Value& shared = call.inputs[1];
  const std::int64_t count = call.integer("heads");
  if (!heads.is_sequence() || !shared.is_sequence() || heads.shape[0] != shared.shape[0] ||
      heads.shape[1] % count != 0) {
    throw ModelError(fmt::format("{} heads of {} cannot get {} each", count, shape_text(heads),
                                 shape_text(shared)));
  }
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const std::int64_t added = checked_multiply(count, shared.shape[1]);
  const Value y =
      layer.output({heads.shape[0], checked_add(heads.shape[1], added)}, heads.element_bytes);
  layer.views(2, 2);
  layer.forward(KernelKind::copy, step.bytes(heads) + step.bytes(shared), step.bytes(y));
  if (layer.backward_needed()) {
    layer.backward(KernelKind::copy, step.bytes(heads), step.bytes(heads));
    layer.backward(KernelKind::elementwise, step.bytes(y) - step.bytes(heads), step.bytes(shared));
  }
  return layer.done(y);
}

}  // namespace

std::vector<OpSpec> rotary_ops() {
  using T = ArgumentType;
  return {
      {"append_to_heads", {{"heads", T::integer, true, 0, 1}}, 2, 2, append_to_heads},
      {"rotary", {{"heads", T::integer, true, 0, 1}}, 1, 1, rotary},
  };
}

}  // namespace lockstep
