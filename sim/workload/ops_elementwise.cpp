// Rules of activations, dropout, soft caps, stochastic depth, and the joins of branches (add,
// multiply, concat). All are streaming kernels. The tensors that their backward reads follow
// libtorch's derivatives.yaml.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// The tensor that the backward of an activation reads besides the gradient, and the FLOPs per
// element (derivatives.yaml of libtorch).
struct ActivationRule {
  const char* name;
  bool saves_output;           // otherwise it saves its input
  bool in_place_saves_output;  // the derivative of the in-place variant is a function of its result
  double flops;
};
constexpr std::array activations{
    ActivationRule{"relu", true, true, 1},         ActivationRule{"relu6", false, false, 2},
    ActivationRule{"leaky_relu", false, true, 2},  ActivationRule{"sigmoid", true, true, 4},
    ActivationRule{"tanh", true, true, 6},         ActivationRule{"gelu", false, false, 10},
    ActivationRule{"silu", false, false, 5},       ActivationRule{"hardswish", false, false, 4},
    ActivationRule{"hardsigmoid", false, false, 3}};

// An activation, whose output has the shape of its input. In place, the output overwrites the
// input, although backward may still need the input.
Value activation(const OpCall& call, bool in_place) {
  const ActivationRule& rule =
      *std::find_if(activations.begin(), activations.end(),
                    [&](const ActivationRule& candidate) { return call.kind == candidate.name; });
  const Value& x = call.input();
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const double bytes = step.bytes(x);
  const auto count = static_cast<double>(step.elements(x));
  const bool backward = layer.backward_needed();
  if (in_place && !rule.in_place_saves_output && backward) {
    // Autograd clones an input that the in-place operator is about to overwrite.
    layer.forward(KernelKind::copy, bytes, bytes);
    layer.save_new("input", bytes);
  }
  layer.forward(KernelKind::elementwise, bytes, bytes, rule.flops * count);
  if (backward) {
    layer.backward(KernelKind::elementwise, 2 * bytes, bytes, rule.flops * count);
  }
  Value y = in_place ? layer.view_of(x, x.shape) : layer.output(x.shape, x.element_bytes);
  y.lay_out_as(x);
  if (backward && rule.saves_output) {
    layer.save(y, "output");
  } else if (backward && !in_place) {
    layer.save(x, "input");
  } else if (backward && rule.in_place_saves_output) {
    layer.save(y, "output");
  }
  return layer.done(y);
}

Value activation_op(const OpCall& call) {
  return activation(call, call.integer("inplace") != 0);
}

// native_dropout writes the output and a mask of one byte per element.
Value dropout(const OpCall& call) {
  const Value& x = call.input();
  if (call.integer("p") == 0) return x;  // PyTorch returns the input itself
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const double bytes = step.bytes(x);
  const auto mask = static_cast<double>(step.elements(x));
  layer.forward(KernelKind::elementwise, bytes, bytes + mask, 10 * mask);
  if (layer.backward_needed()) layer.backward(KernelKind::elementwise, bytes + mask, bytes, mask);
  Value y = layer.output(x.shape, x.element_bytes);
  y.lay_out_as(x);
  layer.save_new("mask", mask).mask = true;
  return layer.done(y);
}

// cap * tanh(x / cap), by which Gemma 2 bounds its logits: three kernels in forward and three in
// backward. Backward reads the tanh.
Value soft_cap(const OpCall& call) {
  const Value& x = call.input();
  LayerWriter layer = call.layer();
  const double bytes = call.step.bytes(x);
  const auto count = static_cast<double>(call.step.elements(x));
  layer.forward(KernelKind::elementwise, bytes, bytes, count);
  layer.forward(KernelKind::elementwise, bytes, bytes, 6 * count);
  layer.forward(KernelKind::elementwise, bytes, bytes, count);
  if (layer.backward_needed()) {
    layer.backward(KernelKind::elementwise, bytes, bytes, count);
    layer.backward(KernelKind::elementwise, 2 * bytes, bytes, 3 * count);
    layer.backward(KernelKind::elementwise, bytes, bytes, count);
  }
  Value y = layer.output(x.shape, x.element_bytes);
  y.lay_out_as(x);
  layer.save_new("tanh", bytes);
  return layer.done(y);
}

// Stochastic depth in torchvision's "row" mode: a random number per sample decides whether the
// branch is dropped; branches that remain are scaled so that the mean is unchanged.
Value stochastic_depth(const OpCall& call) {
  const Value& x = call.input();
  if (call.integer("p") == 0) return x;
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const double bytes = step.bytes(x);
  const auto count = static_cast<double>(step.elements(x));
  const double coins = static_cast<double>(step.options().samples) * x.element_bytes;
  Kernel& draw = layer.forward(KernelKind::elementwise, coins, 2 * coins);
  draw.launches = draw.operators = 2;  // bernoulli_, div_
  layer.forward(KernelKind::elementwise, bytes, bytes, count);
  if (layer.backward_needed()) layer.backward(KernelKind::elementwise, bytes, bytes, count);
  Value y = layer.output(x.shape, x.element_bytes);
  y.lay_out_as(x);
  layer.save_new("noise", coins);
  return layer.done(y);
}

// Element size of a join's result: type promotion takes the widest input.
int widest(const OpCall& call) {
  int bytes = 0;
  for (const Value& value : call.inputs) bytes = std::max(bytes, value.element_bytes);
  return bytes;
}

void require_same_shape(const OpCall& call) {
  for (const Value& value : call.inputs) {
    if (value.tokens || value.shape != call.input().shape ||
        value.permuted != call.input().permuted) {
      throw ModelError(fmt::format("{} joins {} with {}, which do not fit", call.kind,
                                   shape_text(call.input()), shape_text(value)));
    }
  }
}

// Adds casts of the result's gradient for inputs that have another type (fp32 result,
// half-precision input).
void cast_gradients(LayerWriter& layer, const OpCall& call, int element_bytes) {
  for (const Value& value : call.inputs) {
    if (!value.requires_grad || value.element_bytes == element_bytes) continue;
    const auto count = static_cast<double>(call.step.elements(value));
    layer.late_backward(KernelKind::elementwise, element_bytes * count,
                        value.element_bytes * count);
  }
}

Value add_op(const OpCall& call) {
  return emit_add(call, call.integer("inplace") != 0);
}

}  // namespace

Value emit_activation(const OpCall& call) {
  return activation(call, false);
}

// Adds the inputs pairwise from the left. Backward passes the gradient on without a kernel; the
// host runs one AddBackward node per addition.
Value emit_add(const OpCall& call, bool in_place) {
  require_same_shape(call);
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  layer.attribute("inplace", in_place ? 1 : 0);
  const Value& first = call.input();
  const int element_bytes = widest(call);
  const auto count = static_cast<double>(step.elements(first));
  // A sum can be in place only if the first input has the result's type.
  const bool reuse = in_place && first.element_bytes == element_bytes;
  Value y = reuse ? layer.view_of(first, first.shape) : layer.output(first.shape, element_bytes);
  y.lay_out_as(first);
  double left = first.element_bytes * count;
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    layer.forward(KernelKind::elementwise, left + call.inputs[i].element_bytes * count,
                  element_bytes * count, count);
    left = element_bytes * count;
  }
  layer.views(0, static_cast<int>(call.inputs.size()) - 1);
  layer.flow(GradientFlow::passes);
  cast_gradients(layer, call, element_bytes);
  return layer.done(y);
}

// Elementwise product. Each factor's gradient is the output's gradient times the other factor, so
// each factor is saved for the gradient of the other one.
Value emit_multiply(const OpCall& call) {
  const Value& a = call.inputs[0];
  const Value& b = call.inputs[1];
  // The inputs have the same shape, or one is a factor per channel for the other (squeeze-excite).
  const auto is_gate = [](const Value& gate, const Value& x) {
    return gate.is_image() && x.is_image() && gate.shape[0] == x.shape[0] && gate.shape[1] == 1 &&
           gate.shape[2] == 1;
  };
  if (!is_gate(a, b) && !is_gate(b, a)) require_same_shape(call);
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const Value& larger = step.elements(a) >= step.elements(b) ? a : b;
  const auto count = static_cast<double>(step.elements(larger));
  const int element_bytes = widest(call);
  Value y = layer.output(larger.shape, element_bytes);
  y.lay_out_as(larger);
  const double out = step.bytes(y);
  layer.forward(KernelKind::elementwise, step.bytes(a) + step.bytes(b), out, count);
  for (const auto& [wanted, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (!wanted->requires_grad) continue;
    layer.backward(KernelKind::elementwise, out + step.bytes(*other), out, count);
    if (wanted->shape != larger.shape) {  // the broadcast factor's gradient must be summed
      layer.backward(KernelKind::elementwise, out, step.bytes(*wanted), count);
    }
  }
  cast_gradients(layer, call, element_bytes);
  if (b.requires_grad) layer.save(a, "left");
  if (a.requires_grad) layer.save(b, "right");
  return layer.done(y);
}

// Concatenates along channels or features by one copy. In backward each input gets a slice (a view)
// of the output's gradient.
Value emit_concat(const OpCall& call) {
  const Value& first = call.input();
  std::vector<std::int64_t> shape = first.shape;
  if (shape.empty()) throw ModelError("concat needs images, sequences or feature vectors");
  // All other dimensions must be equal.
  const std::size_t axis = first.is_image() ? 0 : shape.size() - 1;
  shape[axis] = 0;
  for (const Value& value : call.inputs) {
    std::vector<std::int64_t> rest = value.shape;
    bool fits = rest.size() == shape.size() && !value.tokens && value.permuted == first.permuted;
    for (std::size_t i = 0; fits && i < rest.size(); ++i) {
      fits = i == axis || rest[i] == shape[i];
    }
    if (!fits) {
      throw ModelError(fmt::format("concat joins {} with {}, which differ in more than channels",
                                   shape_text(first), shape_text(value)));
    }
    shape[axis] = checked_add(shape[axis], value.shape[axis]);
  }
  LayerWriter layer = call.layer();
  const int element_bytes = widest(call);
  Value y = layer.output(shape, element_bytes);
  y.lay_out_as(first);
  double read = 0;
  for (const Value& value : call.inputs) read += call.step.bytes(value);
  layer.forward(KernelKind::copy, read, call.step.bytes(y));
  layer.views(0, static_cast<int>(call.inputs.size()));
  layer.flow(GradientFlow::slices);
  cast_gradients(layer, call, element_bytes);
  return layer.done(y);
}

std::vector<OpSpec> elementwise_ops() {
  using T = ArgumentType;
  std::vector<OpSpec> ops;
  for (const ActivationRule& rule : activations) {
    ops.push_back({rule.name, {{"inplace", T::flag, false, 0}}, 1, 1, activation_op});
  }
  ops.push_back({"dropout", {{"p", T::probability, true}}, 1, 1, dropout});
  ops.push_back({"soft_cap", {}, 1, 1, soft_cap});
  ops.push_back({"stochastic_depth", {{"p", T::probability, true}}, 1, 1, stochastic_depth});
  ops.push_back({"add", {{"inplace", T::flag, false, 0}}, 2, 64, add_op});
  ops.push_back({"multiply", {}, 2, 2, emit_multiply});
  ops.push_back({"concat", {}, 1, 100000, emit_concat});
  return ops;
}

}  // namespace lockstep
