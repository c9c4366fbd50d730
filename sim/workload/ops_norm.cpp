// Rules of normalization layers and of layer scale. Traffic follows fact 131 with two exceptions. A
// row of a layer norm remains in registers and is read once. Backward of batch norm reads its input
// and the gradient twice: for the sums of a channel, and for the gradient of the input
// (batch_norm_backward_kernel in aten/src/ATen/native/cuda/Normalization.cuh; cuDNN's bn_bw_1C11).
#include <fmt/format.h>

#include "workload/ops.hpp"

namespace lockstep {

namespace {

constexpr double stat_bytes = 4;  // statistics are fp32 in every precision

// Batch norm over all samples and pixels of a channel. `wide`: the step has half precision, but
// this layer works in fp32 between two casts, as with FSDP's mixed precision.
Value batch_norm(const OpCall& call) {
  const Value& input = call.input();
  if (input.tokens || input.permuted || input.shape.empty() || input.is_sequence()) {
    throw ModelError(fmt::format("batch_norm needs an image or a feature vector, but gets {}",
                                 shape_text(input)));
  }
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const bool wide = step.options().wide_batch_norm && input.element_bytes == 2;
  const Value x = wide ? layer.full_precision(input) : input;
  const std::int64_t channels = x.channels();
  if (call.integer("affine") != 0) {
    layer.parameter("weight", {channels});
    layer.parameter("bias", {channels});
  }
  // Running mean and variance, and the int64 count of batches that each forward increments.
  layer.buffers(3, 2.0 * channels * (wide ? stat_bytes : step.weight_bytes()) + 8, 1);
  const double bytes = step.bytes(x);
  const auto count = static_cast<double>(step.elements(x));
  // The increment of the batch counter, and one kernel that reads the input twice: for the
  // statistics, and for the result.
  layer.forward(KernelKind::elementwise, 8, 8);
  layer.forward(KernelKind::normalization, 2 * bytes, bytes, 8 * count).math =
      wide ? MathMode::fp32 : step.math();
  if (wide) {  // the fp32 result is cast back; backward begins with the cast of its gradient
    layer.stays_wide();
    const double narrow = step.bytes(input);
    layer.forward(KernelKind::elementwise, bytes, narrow);
    layer.backward(KernelKind::elementwise, narrow, bytes);
    layer.workspace(bytes, bytes);
    layer.casts_gradient_last();
  }
  // Backward reads input and output gradient twice each, and writes the input's gradient; the
  // gradients of weight and bias are small sums of the same kernel.
  layer.backward(KernelKind::normalization, 4 * bytes, bytes, 11 * count).math =
      wide ? MathMode::fp32 : step.math();
  Value y = layer.output(x.shape, input.element_bytes);
  y.lay_out_as(x);
  layer.save(x, "input");
  layer.save_new("statistics", 2 * channels * stat_bytes);
  layer.host_workspace(bytes);  // the gradient of the input exists twice
  return layer.done(y);
}

// Layer norm and group norm: one kernel in forward; in backward one for the input and one for
// weight and bias. `parameters`: elements of the weight. `rows`: number of groups of values that
// are normalised together.
Value emit_row_norm(const OpCall& call, std::int64_t parameters, double rows, bool affine,
                    bool bias) {
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  Value x = step.autocast() ? layer.full_precision(call.input()) : call.input();
  if (x.permuted && !x.channels_last) {  // channels are not contiguous: a copy comes first
    x.channels_last = true;
    x.storage = step.new_storage(step.bytes(x), layer.index());
    layer.forward(KernelKind::copy, step.bytes(x), step.bytes(x));
  }
  if (affine) layer.parameter("weight", {parameters});
  if (affine && bias) layer.parameter("bias", {parameters});
  // FLOPs per element are estimates; traffic limits these kernels.
  const double bytes = step.bytes(x);
  const auto count = static_cast<double>(step.elements(x));
  layer.forward(KernelKind::normalization, bytes, bytes, 7 * count);
  layer.backward(KernelKind::normalization, 2 * bytes, bytes, 11 * count);
  if (affine) {
    Kernel& kernel = layer.backward(KernelKind::normalization, 2 * bytes,
                                    static_cast<double>(parameters) * step.weight_bytes() * 2,
                                    3 * count, Pass::weight_gradient);
    kernel.operators = 0;  // belongs to the operator of the first kernel
  }
  Value y = layer.output(x.shape, x.element_bytes);
  y.lay_out_as(x);
  layer.save(x, "input");
  layer.save_new("statistics", 2 * rows * stat_bytes);
  return layer.done(y);
}

Value layer_norm(const OpCall& call) {
  require_features(call);
  const Value& x = call.input();
  return emit_row_norm(call, x.shape.back(), static_cast<double>(call.step.rows(x)),
                       call.integer("affine") != 0, call.integer("bias") != 0);
}

Value group_norm(const OpCall& call) {
  require_image(call);
  const std::int64_t groups = call.integer("groups");
  const std::int64_t channels = call.input().channels();
  if (channels % groups != 0) {
    throw ModelError(fmt::format("{} groups do not divide {} channels", groups, channels));
  }
  return emit_row_norm(call, channels, static_cast<double>(groups) * call.step.options().samples,
                       call.integer("affine") != 0, true);
}

// RMS norm over the features of each head, or over all features if there is one head. Fused: one
// kernel in forward and two in backward. Otherwise the usual eager module of eight kernels, which
// works in fp32.
Value rms_norm(const OpCall& call) {
  require_features(call);
  StepBuilder& step = call.step;
  const Value& input = call.input();
  const std::int64_t heads = call.integer("heads");
  if (heads == 0) return input;
  if (input.shape.back() % heads != 0) {
    throw ModelError(fmt::format("{} heads do not divide {} features", heads, input.shape.back()));
  }
  LayerWriter layer = call.layer();
  const std::int64_t features = input.shape.back() / heads;
  layer.parameter("weight", {features});
  const auto count = static_cast<double>(step.elements(input));
  const double narrow = input.element_bytes * count;
  const double wide = 4 * count;
  const auto rows = static_cast<double>(step.rows(input) * heads);
  // The result is fp32 if the weight is fp32 (type promotion), or if autocast runs the fused
  // operator in fp32.
  const bool wide_weight = call.integer("fused") != 0 ? step.autocast() : step.casts_weights();
  Value y = layer.output(input.shape, wide_weight ? 4 : input.element_bytes);
  y.lay_out_as(input);
  const double out = step.bytes(y);
  if (call.integer("fused") != 0) {
    layer.forward(KernelKind::normalization, narrow, out, 4 * count);
    layer.backward(KernelKind::normalization, narrow + out, narrow, 8 * count);
    layer
        .backward(KernelKind::normalization, narrow + out, 4.0 * features, 2 * count,
                  Pass::weight_gradient)
        .operators = 0;
    layer.save(input, "input");
    layer.save_new("statistics", rows * stat_bytes);
    return layer.done(y);
  }
  // The usual eager module: cast to fp32, x^2, mean, + eps, r = rsqrt, x * r, cast to the input's
  // type, * weight. Backward differentiates these operators one by one.
  const Value x = layer.full_precision(input);
  layer.forward(KernelKind::elementwise, wide, wide, count);        // pow
  layer.forward(KernelKind::normalization, wide, 4 * rows, count);  // mean
  Kernel& small = layer.forward(KernelKind::elementwise, 8 * rows, 8 * rows, 2 * rows);
  small.launches = small.operators = 2;                       // + eps, rsqrt
  layer.forward(KernelKind::elementwise, wide, wide, count);  // x * r
  const bool narrowed = input.element_bytes == 2;
  if (narrowed) layer.forward(KernelKind::elementwise, wide, narrow);
  layer.forward(KernelKind::elementwise, narrow, out, count);  // * weight

  layer.backward(KernelKind::elementwise, out, out, count);  // gradient of the normalised input
  // gradient of the weight: product
  layer.backward(KernelKind::elementwise, out + narrow, out, count, Pass::weight_gradient);
  layer.backward(KernelKind::elementwise, out, 4.0 * features, count,  // and its sum
                 Pass::weight_gradient);
  if (narrowed) layer.backward(KernelKind::elementwise, narrow, wide);
  layer.backward(KernelKind::elementwise, wide, wide, count);        // of x * r to x
  layer.backward(KernelKind::elementwise, 2 * wide, wide, count);    // gradient of r: product,
  layer.backward(KernelKind::normalization, wide, 4 * rows, count);  // sum over the row
  Kernel& chain = layer.backward(KernelKind::elementwise, 12 * rows, 12 * rows, 3 * rows);
  chain.launches = chain.operators = 3;  // rsqrt, mean
  Kernel& square = layer.backward(KernelKind::elementwise, 2 * wide, 2 * wide, 2 * count);
  square.launches = square.operators = 2;                          // backward of x^2
  layer.backward(KernelKind::elementwise, 2 * wide, wide, count);  // sum of both gradients of x
  layer.save(x, "input");
  layer.save_new("reciprocal", rows * stat_bytes);
  if (layer.trains_last()) layer.save_new("normalised", narrow);
  layer.workspace(wide, 3 * wide);
  return layer.done(y);
}

// Layer scale: a learned factor per channel (ConvNeXt). Under autocast the factor and the result
// are fp32.
Value layer_scale(const OpCall& call) {
  const Value& x = call.input();
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const std::int64_t channels = x.channels();
  if (x.is_image()) {
    layer.parameter("", {channels, 1, 1});
  } else {
    layer.parameter("", {channels});
  }
  Value y = layer.output(x.shape, step.casts_weights() ? 4 : x.element_bytes);
  y.lay_out_as(x);
  const double in = step.bytes(x);
  const double out = step.bytes(y);
  const auto count = static_cast<double>(step.elements(x));
  layer.forward(KernelKind::elementwise, in, out, count);
  layer.backward(KernelKind::elementwise, out, in, count);
  layer.backward(KernelKind::elementwise, in + out, out, count, Pass::weight_gradient);
  layer.backward(KernelKind::elementwise, out, 4.0 * channels, count, Pass::weight_gradient);
  if (layer.trains_last()) layer.save(x, "input");
  layer.workspace(0, out);
  return layer.done(y);
}

}  // namespace

std::vector<OpSpec> norm_ops() {
  using T = ArgumentType;
  return {
      {"batch_norm", {{"affine", T::flag, false, 1}}, 1, 1, batch_norm},
      {"layer_norm",
       {{"affine", T::flag, false, 1}, {"bias", T::flag, false, 1}},
       1,
       1,
       layer_norm},
      {"rms_norm",
       {{"fused", T::flag, false, 0}, {"heads", T::integer, false, 1, 0}},
       1,
       1,
       rms_norm},
      {"group_norm",
       {{"groups", T::integer, true, 0, 1}, {"affine", T::flag, false, 1}},
       1,
       1,
       group_norm},
      {"layer_scale", {}, 1, 1, layer_scale},
  };
}

}  // namespace lockstep
