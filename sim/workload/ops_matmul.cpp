// Rules of convolution, linear and squeeze-excite: the layers that run on the matrix units. A
// product with weights has three kernels per step: forward, the gradient of the input, and the
// gradient of the weight. A convolution is described as an implicit GEMM (docs/model-format.md).
#include <fmt/format.h>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// Output pixels along one dimension, as torch.nn.Conv2d computes them.
std::int64_t output_size(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
  const std::int64_t reach = checked_add(checked_multiply(dilation, kernel - 1), 1);
  const std::int64_t padded = checked_add(in, checked_multiply(2, padding));
  if (padded < reach) {
    throw ModelError(fmt::format("a size of {} (with padding {}) is too small for a kernel of {}",
                                 in, padded, reach),
                     "use a larger image, or a smaller kernel or stride before it");
  }
  return (padded - reach) / stride + 1;
}

// The gradient of a bias: the output's gradient summed over all dimensions but the channels.
void bias_gradient(LayerWriter& layer, double gradient_bytes, double gradient_elements,
                   std::int64_t channels) {
  layer.backward(KernelKind::elementwise, gradient_bytes,
                 static_cast<double>(channels) * layer.step().matmul_bytes(), gradient_elements,
                 Pass::weight_gradient);
}

// Tensor-core convolutions (half precision and TF32) need channels last. For NCHW tensors cuDNN
// converts two inputs and one output for each of a convolution's three kernels (nchwToNhwcKernel,
// nhwcToNchwKernel). `bytes`: size of the three tensors together.
void layout_change(LayerWriter& layer, Pass pass, double bytes) {
  Kernel& kernel = pass == Pass::forward ? layer.forward(KernelKind::copy, bytes, bytes)
                                         : layer.backward(KernelKind::copy, bytes, bytes, 0, pass);
  kernel.launches = 3;
  kernel.operators = 0;
  kernel.changes_layout = true;
}

// The operator `conv`. A size for one direction takes precedence over the size for both.
Value conv(const OpCall& call) {
  const auto either = [&](const char* specific, const char* general) {
    return call.given(specific) ? call.integer(specific) : call.integer(general);
  };
  ConvShape shape;
  shape.out = call.integer("out");
  shape.kernel_h = either("kernel_h", "kernel");
  shape.kernel_w = either("kernel_w", "kernel");
  shape.stride = call.integer("stride");
  shape.padding_h = either("padding_h", "padding");
  shape.padding_w = either("padding_w", "padding");
  shape.dilation = call.integer("dilation");
  shape.groups = call.integer("groups");
  shape.bias = call.integer("bias") != 0;
  return emit_conv(call, shape);
}

// A linear layer without its adapter: y = x W^T + b over the last dimension. Saves the input if the
// weight is trained.
Value product(const OpCall& call) {
  require_features(call);
  const std::int64_t out = call.integer("out");
  const Value& input = call.input();
  const std::int64_t in = input.shape.back();
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const Value x = layer.matmul_input(input);
  const bool quantized = step.freezing().quantizes(call.name, call.block);
  if (quantized) layer.quantize_matrices();
  if (call.word("tied_to").empty()) {
    layer.parameter("weight", {out, in}, true);
  } else {
    layer.tied_parameter(call.word("tied_to"), {out, in});
  }
  const bool trains = layer.trains_last();
  const bool bias = call.integer("bias") != 0;
  // The bias of a row product is added after the ranks' outputs are summed. With sequence
  // parallelism a rank then has only its tokens, so the bias gradient on a rank is a summand.
  const TensorOptions& tensor = step.options().parallel.tensor;
  if (call.cut == TensorCut::row) layer.sums_gradients_over_tensor(tensor.sequence);
  if (bias) layer.parameter("bias", {out}, true);

  std::vector<std::int64_t> shape = input.shape;
  shape.back() = out;
  // The result of bitsandbytes' quantised product has the type of the input.
  Value y = layer.output(shape, quantized ? input.element_bytes : step.matmul_bytes());
  y.lay_out_as(input);
  // The three products (m, n, k): forward (rows, out, in), input gradient (rows, in, out), weight
  // gradient (out, in, rows).
  const std::int64_t rows = step.rows(x);
  layer.gemm(Pass::forward, rows, out, in);
  // An fp32 result of a half-precision product needs one more cast in forward and one in backward.
  if (y.element_bytes != step.matmul_bytes()) {
    const double narrow = step.bytes(y) / 2;
    layer.forward(KernelKind::elementwise, narrow, 2 * narrow);
    layer.backward(KernelKind::elementwise, 2 * narrow, narrow);
  }
  if (input.requires_grad) layer.gemm(Pass::data_gradient, rows, in, out);
  if (trains) layer.gemm(Pass::weight_gradient, out, in, rows);
  if (bias && layer.trains_last()) {
    bias_gradient(layer, step.bytes(y), static_cast<double>(step.elements(y)), out);
    layer.sums_columns(rows, out);
  }
  Value kept = x;
  if (input.kept_storage >= 0) kept.storage = input.kept_storage;
  // MatMul8bitLt saves its input, although no gradient needs it (bitsandbytes 0.50,
  // autograd/_functions.py).
  const Quantization quantization = step.options().fine_tuning.frozen.quantization;
  if (quantized && quantization == Quantization::int8) layer.save(input, "input");
  if (trains) layer.save(kept, "input");
  return layer.done(y);
}

// The operator `linear`: a product, and an adapter beside it if the scenario has one for this
// layer.
Value linear(const OpCall& call) {
  const Value y = product(call);
  const std::int64_t in = call.input().shape.back();
  const bool adapted = call.step.freezing().adapts(call.name, call.block, in, y.shape.back());
  return adapted ? emit_adapter(call, y, product) : y;
}

// Squeeze-and-excitation (Hu et al. 2018): a mean per channel, two 1 x 1 convolutions, and a
// product with the input.
Value squeeze_excite(const OpCall& call) {
  require_image(call);
  const Value& x = call.input();
  const std::int64_t channels = x.channels();
  // Each part is a module of its own, as in torchvision's SqueezeExcitation.
  const OpSpec* pool = find_op("adaptive_avg_pool");
  OpCall squeeze = call.child("avgpool", "adaptive_avg_pool", {x});
  squeeze.specs = &pool->arguments;
  squeeze.integers = {1};
  squeeze.words = {""};
  Value gate = pool->emit(squeeze);
  ConvShape shape;
  shape.out = call.integer("channels");
  gate = emit_conv(call.child("fc1", "conv", {gate}), shape);
  gate = emit_activation(call.child("activation", call.word("activation"), {gate}));
  shape.out = channels;
  gate = emit_conv(call.child("fc2", "conv", {gate}), shape);
  gate = emit_activation(call.child("scale_activation", call.word("gate"), {gate}));
  return emit_multiply(call.child("scale", "multiply", {gate, x}));
}

ConvGeometry geometry_of(const ConvShape& shape, const Value& input, std::int64_t height,
                         std::int64_t width, std::int64_t images) {
  ConvGeometry geometry;
  geometry.channels_in = input.shape[0];
  geometry.channels_out = shape.out;
  geometry.groups = shape.groups;
  geometry.kernel_h = static_cast<int>(shape.kernel_h);
  geometry.kernel_w = static_cast<int>(shape.kernel_w);
  geometry.stride = static_cast<int>(shape.stride);
  geometry.dilation = static_cast<int>(shape.dilation);
  geometry.height_in = input.shape[1];
  geometry.width_in = input.shape[2];
  geometry.height_out = height;
  geometry.width_out = width;
  geometry.images = images;
  geometry.channels_last = input.channels_last;
  return geometry;
}

}  // namespace

// A convolution with optional bias. With P output and H input pixels over the batch, C input and K
// output channels, T kernel taps and G groups, the implicit GEMMs (m, n, k), G times each, are:
//   forward (P, K/G, TC/G)    input gradient (H, C/G, TK/G)    weight gradient (K/G, TC/G, P)
//
// Each reads two of the three tensors (input, output, weight) or their gradients and writes the
// third; all have the same number of FLOPs.
Value emit_conv(const OpCall& call, const ConvShape& shape) {
  require_image(call);
  const Value& input = call.input();
  const std::int64_t in = input.shape[0];
  if (in % shape.groups != 0 || shape.out % shape.groups != 0) {
    throw ModelError(
        fmt::format("{} groups divide neither evenly into {} input channels nor {} "
                    "output channels",
                    shape.groups, in, shape.out));
  }
  const std::int64_t height =
      output_size(input.shape[1], shape.kernel_h, shape.stride, shape.padding_h, shape.dilation);
  const std::int64_t width =
      output_size(input.shape[2], shape.kernel_w, shape.stride, shape.padding_w, shape.dilation);
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const Value x = layer.matmul_input(input);
  const std::int64_t group_in = in / shape.groups;
  const std::int64_t group_out = shape.out / shape.groups;
  layer.attribute("stride", shape.stride);
  layer.attribute("padding_h", shape.padding_h);
  layer.attribute("padding_w", shape.padding_w);
  layer.attribute("dilation", shape.dilation);
  layer.attribute("groups", shape.groups);
  layer.parameter("weight", {shape.out, group_in, shape.kernel_h, shape.kernel_w}, true);
  if (layer.trains_last()) layer.save(x, "input");
  if (shape.bias) layer.parameter("bias", {shape.out}, true);
  Value y = layer.output({shape.out, height, width}, step.matmul_bytes());
  y.channels_last = input.channels_last;

  const std::int64_t taps = checked_multiply(shape.kernel_h, shape.kernel_w);
  const std::int64_t pixels_in =
      checked_multiply(step.options().samples, checked_multiply(input.shape[1], input.shape[2]));
  const std::int64_t pixels_out =
      checked_multiply(step.options().samples, checked_multiply(height, width));
  const double x_bytes = step.bytes(x);
  const double y_bytes = step.bytes(y);
  const double weights = static_cast<double>(shape.out) * group_in * taps;
  const double w_bytes = weights * step.matmul_bytes();
  const double flops = 2.0 * pixels_out * weights;

  const ConvGeometry geometry = geometry_of(shape, input, height, width, step.options().samples);
  const auto implicit_gemm = [&](Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k) {
    kernel.math = step.math();
    kernel.flops = flops;
    kernel.m = m;
    kernel.n = n;
    kernel.k = k;
    kernel.batch = shape.groups;
    kernel.conv = geometry;
  };

  // Images of one pixel have the same memory layout with channels first and last.
  const bool convert = !input.channels_last && step.math() != MathMode::fp32 && shape.groups == 1 &&
                       (pixels_in > step.options().samples || pixels_out > step.options().samples);
  const double moved = x_bytes + y_bytes + w_bytes;
  implicit_gemm(layer.forward(KernelKind::convolution, x_bytes + w_bytes, y_bytes), pixels_out,
                group_out, group_in * taps);
  if (convert) {
    layout_change(layer, Pass::forward, moved);
    layer.workspace(moved, moved);
  }
  if (shape.bias) {  // cuDNN adds no bias; an in-place addition follows
    layer.forward(KernelKind::elementwise, y_bytes, y_bytes, y_bytes / step.matmul_bytes());
  }
  if (input.requires_grad) {
    implicit_gemm(
        layer.backward(KernelKind::convolution, y_bytes + w_bytes, x_bytes, 0, Pass::data_gradient),
        pixels_in, group_in, checked_multiply(group_out, taps));
    if (convert) layout_change(layer, Pass::data_gradient, moved);
  }
  implicit_gemm(
      layer.backward(KernelKind::convolution, x_bytes + y_bytes, w_bytes, 0, Pass::weight_gradient),
      group_out, checked_multiply(group_in, taps), pixels_out);
  if (convert) layout_change(layer, Pass::weight_gradient, moved);
  if (shape.bias) {
    bias_gradient(layer, y_bytes, y_bytes / step.matmul_bytes(), shape.out);
  }
  return layer.done(y);
}

std::vector<OpSpec> matmul_ops() {
  using T = ArgumentType;
  return {
      {"conv",
       {{"out", T::integer, true, 0, 1},
        {"kernel", T::integer, false, 1, 1, 65535},
        {"kernel_h", T::integer, false, not_given, 1, 65535},
        {"kernel_w", T::integer, false, not_given, 1, 65535},
        {"stride", T::integer, false, 1, 1, 65535},
        {"padding", T::integer, false, 0, 0},
        {"padding_h", T::integer, false, not_given, 0},
        {"padding_w", T::integer, false, not_given, 0},
        {"dilation", T::integer, false, 1, 1, 65535},
        {"groups", T::integer, false, 1, 1},
        {"bias", T::flag, false, 1}},
       1,
       1,
       conv},
      {"linear",
       {{"out", T::integer, true, 0, 1}, {"bias", T::flag, false, 1}, {"tied_to", T::word}},
       1,
       1,
       linear},
      {"squeeze_excite",
       {{"channels", T::integer, true, 0, 1},
        {"activation", T::word, false, 0, 0, 0, {"relu", "silu", "gelu", "hardswish"}},
        {"gate", T::word, false, 0, 0, 0, {"sigmoid", "hardsigmoid"}}},
       1,
       1,
       squeeze_excite},
  };
}

}  // namespace lockstep
