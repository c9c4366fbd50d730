// The operators of torchvision's Swin transformer on windows of an image, in LibTorch. The
// simulator's operators are in sim/workload/ops_window.cpp. Images are (samples, height, width,
// features). Includes ATen, so only .cpp files may include it.
#pragma once

#include <ATen/ATen.h>

namespace lockstep {

struct WindowRule {
  std::int64_t size = 0;   // pixels of a side
  std::int64_t shift = 0;  // 0 = not rolled
};

// cut_windows() returns the windows one after the other, in the shape of the padded image.
// join_windows() is the inverse, without the padding.
at::Tensor cut_windows(const at::Tensor& image, const WindowRule& rule);
at::Tensor join_windows(const at::Tensor& windows, const WindowRule& rule, std::int64_t height,
                        std::int64_t width);
// `packed`: query, key and value of each pixel, in the order of cut_windows(). `table`: a bias for
// every distance and head.
at::Tensor attend_in_windows(const at::Tensor& packed, const at::Tensor& table,
                             const WindowRule& rule, std::int64_t heads);
at::Tensor merge_patches(const at::Tensor& image);

}  // namespace lockstep
