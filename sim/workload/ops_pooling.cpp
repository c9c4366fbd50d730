// Rules of pooling and of the operators that only view a tensor in another shape (flatten, permute,
// to_tokens). Sizes follow torch.nn.MaxPool2d and torch.nn.AvgPool2d. Views cost host time but
// launch no kernel.
#include <fmt/format.h>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// Output pixels along one dimension, as torch.nn.MaxPool2d computes them.
std::int64_t pooled_size(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, bool ceil_mode) {
  const std::int64_t padded = checked_add(in, 2 * padding);
  if (padded < kernel) {
    throw ModelError(
        fmt::format("a size of {} (with padding {}) is too small for a pooling window of {}", in,
                    padded, kernel),
        "use a larger image, or less pooling");
  }
  const std::int64_t steps = padded - kernel;
  std::int64_t out = steps / stride + 1;
  // With ceil_mode, a last window that is only partly inside counts if it starts in the image or in
  // its left padding.
  if (ceil_mode && steps % stride != 0 && out * stride < in + padding) ++out;
  return out;
}

// Max or average pooling. Max pooling saves the int64 position of each maximum for backward.
Value pool(const OpCall& call, bool max) {
  require_image(call);
  const Value& x = call.input();
  const std::int64_t kernel = call.integer("kernel");
  const std::int64_t stride = call.given("stride") ? call.integer("stride") : kernel;
  const std::int64_t padding = call.integer("padding");
  const bool ceil_mode = call.integer("ceil_mode") != 0;
  if (padding > kernel / 2) {
    throw ModelError(
        fmt::format("a padding of {} is more than half the window of {}", padding, kernel));
  }
  LayerWriter layer = call.layer();
  layer.attribute("stride", stride);
  Value y = layer.output({x.shape[0], pooled_size(x.shape[1], kernel, stride, padding, ceil_mode),
                          pooled_size(x.shape[2], kernel, stride, padding, ceil_mode)},
                         x.element_bytes);
  y.channels_last = x.channels_last;
  // Overlapping windows read their common pixels from the cache, so the input is read once.
  const double in = call.step.bytes(x);
  const double out = call.step.bytes(y);
  const auto outputs = static_cast<double>(call.step.elements(y));
  const double indices = max ? 8 * outputs : 0;  // int64 position of each maximum
  const double window = static_cast<double>(kernel) * kernel;
  layer.forward(KernelKind::pooling, in, out + indices, window * outputs);
  if (layer.backward_needed()) {
    Kernel& gradient = layer.backward(KernelKind::pooling, out + indices, in, window * outputs);
    if (max && !x.channels_last) gradient.searching_elements = call.step.elements(x);
    layer.save(x, "input");
    if (max) layer.save_new("indices", indices);
  }
  return layer.done(y);
}

Value max_pool(const OpCall& call) {
  return pool(call, true);
}
Value avg_pool(const OpCall& call) {
  return pool(call, false);
}

// Average pooling to `out` x `out` pixels, for an input of any size.
Value adaptive_avg_pool(const OpCall& call) {
  require_image(call);
  const Value& x = call.input();
  const std::int64_t size = call.integer("out");
  LayerWriter layer = call.layer();
  Value y = layer.output({x.shape[0], size, size}, x.element_bytes);
  y.channels_last = x.channels_last;
  const double in = call.step.bytes(x);
  const double out = call.step.bytes(y);
  const auto count = static_cast<double>(call.step.elements(x));
  layer.forward(KernelKind::pooling, in, out, count);
  if (layer.backward_needed()) {
    layer.backward(KernelKind::pooling, out, in, count);
    if (size > 1) layer.save(x, "input");  // backward of a mean (1 x 1 output) needs only sizes
  }
  return layer.done(y);
}

// Turns an image or a sequence into one feature vector, by a view.
Value flatten(const OpCall& call) {
  const Value& x = call.input();
  if (x.tokens || x.shape.empty()) throw ModelError("flatten needs an image or a sequence");
  std::int64_t features = 1;
  for (const std::int64_t size : x.shape) features = checked_multiply(features, size);
  LayerWriter layer = call.layer();
  layer.views(1, 1);
  layer.flow(GradientFlow::passes);
  Value y = layer.view_of(x, {features});
  y.permuted = false;
  return layer.done(y);
}

// Makes the channels the last dimension, or the first one again, by a view of the same memory.
Value permute(const OpCall& call) {
  const Value& x = call.input();
  if (x.tokens || x.shape.size() != 3) {
    throw ModelError(fmt::format("permute needs an image, but gets {}", shape_text(x)));
  }
  LayerWriter layer = call.layer();
  layer.views(1, 1);
  layer.flow(GradientFlow::passes);
  const auto& s = x.shape;
  Value y =
      layer.view_of(x, x.permuted ? std::vector{s[2], s[0], s[1]} : std::vector{s[1], s[2], s[0]});
  y.permuted = !x.permuted;
  layer.attribute("channels_last", y.permuted ? 1 : 0);
  return layer.done(y);
}

// Turns an image into a sequence with one token per pixel.
Value to_tokens(const OpCall& call) {
  require_image(call);
  const Value& x = call.input();
  LayerWriter layer = call.layer();
  layer.views(2, 2);
  layer.flow(GradientFlow::passes);
  return layer.done(layer.view_of(x, {checked_multiply(x.shape[1], x.shape[2]), x.shape[0]}));
}

}  // namespace

std::vector<OpSpec> pooling_ops() {
  using T = ArgumentType;
  const std::vector<ArgumentSpec> window{{"kernel", T::integer, true, 0, 1, 65535},
                                         {"stride", T::integer, false, not_given, 1, 65535},
                                         {"padding", T::integer, false, 0, 0, 65535},
                                         {"ceil_mode", T::flag, false, 0}};
  return {
      {"max_pool", window, 1, 1, max_pool},
      {"avg_pool", window, 1, 1, avg_pool},
      {"adaptive_avg_pool", {{"out", T::integer, false, 1, 1}}, 1, 1, adaptive_avg_pool},
      {"flatten", {}, 1, 1, flatten},
      {"permute", {}, 1, 1, permute},
      {"to_tokens", {}, 1, 1, to_tokens},
  };
}

}  // namespace lockstep
