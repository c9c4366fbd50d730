// Cuts images into windows, attends within them and merges patches, as torchvision's Swin
// transformer does (models/swin_transformer.py). For shifted windows the image is rolled, and a
// mask separates pixels that were no neighbours before.
#include "torch/windows.hpp"

#include <cmath>

namespace lockstep {

namespace {

std::int64_t missing(std::int64_t size, std::int64_t multiple) {
  return (multiple - size % multiple) % multiple;
}

// Views the tensor as (samples, rows of windows, pixels, columns of windows, pixels, features), and
// swaps the third and fourth dimension.
at::Tensor swapped(const at::Tensor& x, std::int64_t rows, std::int64_t second, std::int64_t third,
                   std::int64_t fourth) {
  return x.reshape({x.size(0), rows, second, third, fourth, x.size(-1)})
      .permute({0, 1, 3, 2, 4, 5})
      .contiguous();
}

// For each pair of pixels, the row of the bias table.
at::Tensor distances(std::int64_t size, const at::TensorOptions& options) {
  const at::Tensor along = at::arange(size, options.dtype(at::kLong));
  const at::Tensor row = along.repeat_interleave(size), column = along.repeat({size});
  const auto between = [&](const at::Tensor& x) {
    return x.unsqueeze(1) - x.unsqueeze(0) + (size - 1);
  };
  return between(row) * (2 * size - 1) + between(column);
}

// Biases that let pixels of a rolled image attend only to pixels that were their neighbours before.
at::Tensor mask_of(std::int64_t height, std::int64_t width, const WindowRule& rule,
                   const at::TensorOptions& options) {
  const auto parts = [&](std::int64_t size) {
    at::Tensor part = at::zeros({size}, options);
    part.slice(0, size - rule.size, size - rule.shift).fill_(1);
    part.slice(0, size - rule.shift, size).fill_(2);
    return part;
  };
  const at::Tensor area = parts(height).unsqueeze(1) * 3 + parts(width).unsqueeze(0);
  const at::Tensor windows = cut_windows(area.reshape({1, height, width, 1}), {rule.size, 0})
                                 .reshape({-1, rule.size * rule.size});
  return (windows.unsqueeze(1) - windows.unsqueeze(2)).ne(0).to(options.dtype()) * -100.0;
}

}  // namespace

at::Tensor cut_windows(const at::Tensor& image, const WindowRule& rule) {
  const std::int64_t below = missing(image.size(1), rule.size),
                     right = missing(image.size(2), rule.size);
  at::Tensor x = below + right > 0 ? at::constant_pad_nd(image, {0, 0, 0, right, 0, below}) : image;
  if (rule.shift > 0) x = at::roll(x, {-rule.shift, -rule.shift}, {1, 2});
  const std::int64_t height = x.size(1), width = x.size(2);
  return swapped(x, height / rule.size, rule.size, width / rule.size, rule.size)
      .reshape({x.size(0), height, width, x.size(3)});
}

at::Tensor join_windows(const at::Tensor& windows, const WindowRule& rule, std::int64_t height,
                        std::int64_t width) {
  at::Tensor x = swapped(windows, windows.size(1) / rule.size, windows.size(2) / rule.size,
                         rule.size, rule.size)
                     .reshape(windows.sizes());
  if (rule.shift > 0) x = at::roll(x, {rule.shift, rule.shift}, {1, 2});
  return x.slice(1, 0, height).slice(2, 0, width).contiguous();
}

at::Tensor attend_in_windows(const at::Tensor& packed, const at::Tensor& table,
                             const WindowRule& rule, std::int64_t heads) {
  const std::int64_t pixels = rule.size * rule.size, features = packed.size(3) / 3;
  const at::Tensor parts =
      packed.reshape({-1, pixels, 3, heads, features / heads}).permute({2, 0, 3, 1, 4});
  const at::Tensor q = parts[0] * (1 / std::sqrt(static_cast<double>(features / heads)));
  at::Tensor scores = at::matmul(q, parts[1].transpose(-2, -1));
  const at::Tensor rows = distances(rule.size, table.options()).reshape({-1});
  scores = scores + table.index_select(0, rows).reshape({pixels, pixels, heads}).permute({2, 0, 1});
  if (rule.shift > 0) {
    const at::Tensor mask = mask_of(packed.size(1), packed.size(2), rule, scores.options());
    const std::int64_t windows = mask.size(0);
    scores = (scores.reshape({-1, windows, heads, pixels, pixels}) + mask.unsqueeze(1))
                 .reshape({-1, heads, pixels, pixels});
  }
  const at::Tensor y = at::matmul(at::softmax(scores, -1), parts[2]);
  return y.transpose(1, 2).reshape({packed.size(0), packed.size(1), packed.size(2), features});
}

at::Tensor merge_patches(const at::Tensor& image) {
  const std::int64_t below = missing(image.size(1), 2), right = missing(image.size(2), 2);
  const at::Tensor x =
      below + right > 0 ? at::constant_pad_nd(image, {0, 0, 0, right, 0, below}) : image;
  const auto every_second = [&](std::int64_t row, std::int64_t column) {
    return x.slice(1, row, x.size(1), 2).slice(2, column, x.size(2), 2);
  };
  return at::cat({every_second(0, 0), every_second(1, 0), every_second(0, 1), every_second(1, 1)},
                 -1);
}

}  // namespace lockstep
