// Rules of attention inside the windows of an image, as in torchvision's Swin transformer (Liu et
// al. 2021). The image is cut into windows; each window attends to itself, with a learned bias for
// every distance; then the windows are joined to an image. All operators here need images with
// channels last, so a model uses `permute` before them.
#include <fmt/format.h>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

void require_permuted(const OpCall& call) {
  const Value& x = call.input();
  if (x.shape.size() == 3 && x.permuted) return;
  throw ModelError(fmt::format("{} needs an image with its channels last, but gets {}", call.kind,
                               shape_text(x)),
                   "put `permute` before it");
}

// An output with the type and memory layout of `x`.
Value image_like(LayerWriter& layer, const Value& x, std::vector<std::int64_t> shape) {
  Value y = layer.output(std::move(shape), x.element_bytes);
  y.lay_out_as(x);
  return y;
}

// Adds a copy of `bytes` bytes in forward, and another one in backward.
void copied(LayerWriter& layer, double bytes) {
  layer.forward(KernelKind::copy, bytes, bytes);
  if (layer.backward_needed()) layer.backward(KernelKind::copy, bytes, bytes);
}

// `size` rounded up to whole windows.
std::int64_t padded(std::int64_t size, std::int64_t window) {
  return checked_multiply((size - 1) / window + 1, window);
}

// Whether the windows are shifted, which rolls the image. A window as large as the image is never
// shifted, as in torchvision's shifted_window_attention.
bool shifts(const OpCall& call, std::int64_t height, std::int64_t width) {
  const std::int64_t window = call.integer("size");
  return call.integer("shift") > 0 && window < std::min(height, width);
}

// Cuts an image into windows: padding to whole windows, a roll if the windows are shifted, and a
// copy that makes the pixels of a window contiguous. The shape remains that of the (padded) image.
Value windows(const OpCall& call) {
  require_permuted(call);
  const Value& x = call.input();
  const std::int64_t size = call.integer("size");
  const std::int64_t height = padded(x.shape[0], size), width = padded(x.shape[1], size);
  LayerWriter layer = call.layer();
  const Value y = image_like(layer, x, {height, width, x.shape[2]});
  const double bytes = call.step.bytes(y);
  copied(layer, bytes);  // F.pad copies even if there is nothing to pad
  const bool rolled = shifts(call, height, width);
  layer.attribute("rolled", rolled ? 1 : 0);
  if (rolled) copied(layer, bytes);
  layer.views(3, 3);
  copied(layer, bytes);
  return layer.done(y);
}

// The inverse of `windows`, with an image of `height` x `width` as result: a copy, the inverse
// roll, and a crop.
Value join_windows(const OpCall& call) {
  require_permuted(call);
  const Value& x = call.input();
  const std::int64_t height = call.integer("height"), width = call.integer("width");
  if (padded(height, call.integer("size")) != x.shape[0] ||
      padded(width, call.integer("size")) != x.shape[1]) {
    throw ModelError(fmt::format("windows of {} do not make {} x {} of {}", call.integer("size"),
                                 height, width, shape_text(x)));
  }
  LayerWriter layer = call.layer();
  const double bytes = call.step.bytes(x);
  layer.views(3, 3);
  copied(layer, bytes);
  const bool rolled = shifts(call, x.shape[0], x.shape[1]);
  layer.attribute("rolled", rolled ? 1 : 0);
  if (rolled) copied(layer, bytes);
  const Value y = image_like(layer, x, {height, width, x.shape[2]});
  if (height != x.shape[0] || width != x.shape[1]) copied(layer, bytes);
  return layer.done(y);
}

// The mask of shifted windows, which torchvision computes in every forward pass. Nine regions are
// filled with their numbers and cut into windows, and pairs of pixels with different numbers are
// masked (torchvision/models/swin_transformer.py: shifted_window_attention). `pairs`: pairs of
// pixels over all windows of one image.
void make_mask(LayerWriter& layer, double pairs) {
  Kernel& mask = layer.forward(KernelKind::elementwise, 4 * 4 * pairs, 4 * 4 * pairs, 4 * pairs);
  mask.launches = 16;   // zeros, nine fills, a copy, difference, two comparisons, two fills
  mask.operators = 45;  // and the slices between them
}

// Attention within the windows of one packed query-key-value image that `windows` has cut. A window
// counts as a sample. Scores are always written to memory.
Value window_attention(const OpCall& call) {
  require_permuted(call);
  StepBuilder& step = call.step;
  const Value& input = call.input();
  const std::int64_t size = call.integer("size"), count = call.integer("heads");
  const std::int64_t height = input.shape[0], width = input.shape[1], features = input.shape[2];
  if (height % size != 0 || width % size != 0) {
    throw ModelError(fmt::format("{} is not made of windows of {}", shape_text(input), size),
                     "put `windows` before it");
  }
  if (features % checked_multiply(3, count) != 0) {
    throw ModelError(fmt::format("{} features are not divisible by {} query, key and value heads",
                                 features, 3 * count));
  }
  LayerWriter layer = call.layer();
  layer.attends();
  const Value x = layer.matmul_input(input);
  Heads heads;
  heads.query = heads.key = count;
  heads.size = features / 3 / count;
  heads.tokens = checked_multiply(size, size);
  heads.samples = checked_multiply(step.options().samples, (height / size) * (width / size));
  // The bias table has one number per head and distance between two pixels.
  const std::int64_t distances = checked_multiply(2 * size - 1, 2 * size - 1);
  layer.parameter("", {distances, count});
  const double pairs = static_cast<double>(checked_multiply(heads.tokens, heads.tokens));
  const double biases = pairs * static_cast<double>(count) * step.weight_bytes();
  layer.views(7, 6);
  layer.forward(KernelKind::embedding, 8 * pairs + biases, biases);
  layer.forward(KernelKind::copy, biases, biases);
  Value y = layer.output({height, width, features / 3}, step.matmul_bytes());
  y.lay_out_as(input);
  ScoreRule rule;
  rule.learned_bias = true;
  const bool shifted = shifts(call, height, width);
  layer.attribute("rolled", shifted ? 1 : 0);
  rule.additions = shifted ? 2 : 1;  // the second one masks pixels that were not neighbours
  if (shifted)
    make_mask(layer, pairs * static_cast<double>(checked_multiply(height / size, width / size)));
  emit_scores(layer, heads, rule, step.bytes(y));
  if (layer.backward_needed()) {
    emit_picked_gradients(layer, step.bytes(x));
    layer.backward(KernelKind::copy, step.bytes(x), step.bytes(x));
    layer.late_backward(KernelKind::embedding, 2 * biases + 32 * pairs, biases).launches = 5;
  }
  return layer.done(y);
}

// Turns each 2 x 2 pixels into one pixel with the features of all four, by four strided slices and
// their concatenation.
Value merge_patches(const OpCall& call) {
  require_permuted(call);
  const Value& x = call.input();
  const std::int64_t height = (x.shape[0] + 1) / 2, width = (x.shape[1] + 1) / 2;
  LayerWriter layer = call.layer();
  const Value y = image_like(layer, x, {height, width, checked_multiply(4, x.shape[2])});
  const double bytes = call.step.bytes(y);
  copied(layer, bytes);
  layer.views(12, 4);
  layer.forward(KernelKind::copy, bytes, bytes);
  if (layer.backward_needed()) {
    // The gradient of each strided slice is an image that is filled with zeros, once for rows and
    // once for columns. The four images are then added.
    Kernel& fills = layer.backward(KernelKind::copy, 0, 4 * 1.5 * bytes);
    fills.launches = fills.operators = 8;
    Kernel& slices = layer.backward(KernelKind::copy, 4 * 0.75 * bytes, 4 * 0.75 * bytes);
    slices.launches = slices.operators = 8;
    Kernel& sums = layer.backward(KernelKind::elementwise, 6 * bytes, 3 * bytes);
    sums.launches = sums.operators = 3;
    layer.workspace(0, 2 * bytes);
  }
  return layer.done(y);
}

}  // namespace

std::vector<OpSpec> window_ops() {
  using T = ArgumentType;
  const ArgumentSpec size{"size", T::integer, true, 0, 1, 65535};
  const ArgumentSpec shift{"shift", T::integer, false, 0, 0, 65535};
  return {
      {"windows", {size, shift}, 1, 1, windows},
      {"window_attention",
       {{"heads", T::integer, true, 0, 1}, size, shift},
       1,
       1,
       window_attention},
      {"join_windows",
       {{"height", T::integer, true, 0, 1}, {"width", T::integer, true, 0, 1}, size, shift},
       1,
       1,
       join_windows},
      {"merge_patches", {}, 1, 1, merge_patches},
  };
}

}  // namespace lockstep
