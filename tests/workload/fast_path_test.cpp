// Have products in low precision and exchanges in pieces the right kernels and bytes, and do FLOPs
// stay the same?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build.hpp"

namespace lockstep::fast_path_test {
namespace {

constexpr const char* two_products = R"(
input: {tokens: 64}
blocks:
  block:
    layers:
      - linear: {out: 256, bias: false}
        name: up
      - gelu:
        name: act
      - linear: {out: 128, bias: false}
        name: down
layers:
  - embedding: {rows: 1000, features: 128}
    name: wte
  - name: h
    repeat: {count: 2, layers: [block]}
  - linear: {out: 1000, bias: false}
    name: head
  - cross_entropy:
)";

StepOptions options_with(LowPrecisionRecipe recipe, Compile compile = Compile::none) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.samples = 4;
  options.low_precision.recipe = recipe;
  options.compile = compile;
  return options;
}

double moved(const std::vector<Kernel>& kernels, KernelKind kind) {
  double bytes = 0;
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == kind) bytes += kernel.bytes_read + kernel.bytes_written;
  }
  return bytes;
}

TEST(LowPrecision, ConvertsLinearLayersOfBlocks) {
  const TrainingStep step =
      build_text(two_products, options_with(LowPrecisionRecipe::fp8_tensorwise));
  for (const Layer& layer : step.layers) {
    for (const auto* list : {&layer.forward, &layer.backward}) {
      for (const Kernel& kernel : *list) {
        if (kernel.kind != KernelKind::gemm) continue;
        EXPECT_EQ(kernel.math, layer.name == "head" ? MathMode::bf16 : MathMode::fp8) << layer.name;
      }
    }
  }
}

// A product of 256 tokens with 128 features into 256. A compiled cast reads 2 bytes for the
// maximum, then reads 2 and writes 1: 5 bytes an element.
TEST(LowPrecision, CastsAreCountedByHand) {
  const double input = 256 * 128, weight = 256 * 128, gradient = 256 * 256;
  const TrainingStep step =
      build_text(two_products, options_with(LowPrecisionRecipe::fp8_tensorwise, Compile::blocks));
  const Layer& up = find_layer(step, "h.0.up");
  EXPECT_EQ(moved(up.forward, KernelKind::elementwise), 5 * (input + weight));
  // Backward casts the weight and the gradient, and casts the gradient and the input once more into
  // the other layout; their scales are known by then, which saves the maximum.
  EXPECT_EQ(moved(up.backward, KernelKind::elementwise), 5 * weight + 8 * gradient + 3 * input);
  const TrainingStep engine =
      build_text(two_products, options_with(LowPrecisionRecipe::fp8_delayed));
  const Layer& other = find_layer(engine, "h.0.up");
  EXPECT_EQ(moved(other.forward, KernelKind::elementwise), 4 * (input + weight));
  EXPECT_EQ(moved(other.backward, KernelKind::elementwise), 4 * gradient);
}

TEST(LowPrecision, EngineKeepsNarrowInputs) {
  const TrainingStep wide = build_text(two_products, options_with(LowPrecisionRecipe::none));
  const TrainingStep torchao =
      build_text(two_products, options_with(LowPrecisionRecipe::fp8_rowwise));
  const TrainingStep engine =
      build_text(two_products, options_with(LowPrecisionRecipe::fp8_delayed));
  EXPECT_EQ(saved_bytes(torchao), saved_bytes(wide));
  // Transformer Engine keeps both inputs of both blocks with one byte each. gelu's own input stays
  // as before, and the first product's input is the residual stream, which no other layer keeps.
  const double inputs = 2 * 256.0 * (128 + 256);
  EXPECT_EQ(saved_bytes(wide) - saved_bytes(engine), inputs);
}

TEST(LowPrecision, LeavesSizesThatSixteenDoesNotDivide) {
  const TrainingStep step = build_text(R"(
input: {tokens: 64}
layers:
  - embedding: {rows: 1000, features: 136}
    name: wte
  - name: h
    repeat:
      count: 1
      layers:
        - linear: {out: 256, bias: false}
          name: up
  - cross_entropy:
)",
                                       options_with(LowPrecisionRecipe::fp8_tensorwise));
  EXPECT_EQ(find_kernel(find_layer(step, "h.0.up").forward, KernelKind::gemm, Pass::forward).math,
            MathMode::bf16);
}

TrainingStep tensor_parallel(TensorOverlap overlap) {
  StepOptions options = options_with(LowPrecisionRecipe::none);
  options.sequence = 512;
  options.parameters = {{"layers", 2}};
  options.parallel.tensor.size = 4;
  options.parallel.tensor.sequence = true;
  options.parallel.tensor.overlap = overlap;
  return build_step(*load_model("llama3.2-1b"), options);
}

double exchanged(const TrainingStep& step, Beside beside) {
  double bytes = 0;
  for (const Layer& layer : step.layers) {
    for (const auto* list : {&layer.forward_exchanges, &layer.backward_exchanges}) {
      for (const AxisExchange& exchange : *list) {
        if (exchange.beside == beside) bytes += exchange.bytes;
      }
    }
  }
  return bytes;
}

// Every exchange of a block runs beside its products; FLOPs and bytes stay the same.
TEST(Pieces, MoveExchangesBesideProducts) {
  const TrainingStep plain = tensor_parallel(TensorOverlap::none);
  const TrainingStep pieces = tensor_parallel(TensorOverlap::pieces);
  EXPECT_NEAR(exchanged(pieces, Beside::own_layer) + exchanged(pieces, Beside::nothing),
              exchanged(plain, Beside::nothing), 1);
  const double block = 4.0 * 512 * 2048 * 2;  // bytes of a gathered tensor
  EXPECT_GE(exchanged(pieces, Beside::own_layer), 2 * 8 * block);
  EXPECT_EQ(pieces.forward_flops, plain.forward_flops);
  const Layer& gate = find_layer(pieces, "model.layers.0.mlp.gate_proj");
  int products = 0;
  double flops = 0;
  for (const Kernel& kernel : gate.forward) {
    if (kernel.kind != KernelKind::gemm) continue;
    ++products;
    flops += kernel.flops;
  }
  EXPECT_EQ(products, 4);
  EXPECT_EQ(flops, 2.0 * 4 * 512 * 2048 * 8192 / 4);
}

}  // namespace
}  // namespace lockstep::fast_path_test
