// Writes a low-rank adapter beside a linear layer, as peft runs it (peft 0.17, tuners/lora/layer.py
// and bnb.py):
//
//   x --linear (frozen)----------------------------------> + --> y
//   x --cast--> dropout--> lora_A (rank) --> lora_B --> * scale --^
//
// Each of these operators is a layer of its own, as eager PyTorch runs it.
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// A layer of one streaming kernel, for example a cast or a scale. `passes`: whether backward passes
// the gradient on; otherwise backward runs one kernel.
Value streamed(const OpCall& call, int element_bytes, bool passes) {
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const Value& x = call.input();
  Value y = layer.output(x.shape, element_bytes);
  y.lay_out_as(x);
  const auto count = static_cast<double>(step.elements(x));
  layer.forward(KernelKind::elementwise, step.bytes(x), step.bytes(y), count);
  if (passes) {
    layer.flow(GradientFlow::passes);
  } else if (layer.backward_needed()) {
    layer.backward(KernelKind::elementwise, step.bytes(y), step.bytes(x), count);
  }
  return layer.done(y);
}

// The call of another operator with its evaluated arguments, in the order of the operator's table
// row.
OpCall with_arguments(OpCall call, std::vector<std::int64_t> integers) {
  call.specs = &find_op(call.kind)->arguments;
  call.words.assign(integers.size(), "");
  call.integers = std::move(integers);
  return call;
}

}  // namespace

Value emit_adapter(const OpCall& call, const Value& frozen, Value (*linear)(const OpCall&)) {
  StepBuilder& step = call.step;
  const AdapterOptions& adapters = *step.options().fine_tuning.adapters;
  const Quantization quantization = step.options().fine_tuning.frozen.quantization;
  Value base = frozen;
  Value x = call.input();
  // peft's Linear4bit clones the frozen layer's result before it adds to it.
  if (quantization == Quantization::nf4 && !call.block.empty()) {
    base = streamed(call.child("clone", "clone", {base}), base.element_bytes, true);
  }
  // peft casts the input to the type of the adapter's weights; autocast then casts it back for the
  // product.
  if (quantization == Quantization::none && step.casts_trained() && x.element_bytes == 2) {
    x = streamed(call.child("lora_cast", "cast", {x}), 4, false);
  }
  if (adapters.dropout > 0) {
    const auto millionths = static_cast<std::int64_t>(adapters.dropout * 1e6);
    OpCall drop = with_arguments(call.child("lora_dropout", "dropout", {x}), {millionths});
    x = find_op("dropout")->emit(drop);
  }
  const auto product = [&](const char* name, const Value& input, std::int64_t out) {
    return linear(with_arguments(call.child(name, "linear", {input}), {out, 0, 0}));
  };
  const Value narrow = product("lora_A", x, adapters.rank);
  const Value wide = product("lora_B", narrow, base.shape.back());
  const Value scaled =
      streamed(call.child("lora_scale", "scale", {wide}), wide.element_bytes, false);
  return emit_add(call.child("lora_add", "add", {base, scaled}), false);
}

}  // namespace lockstep
