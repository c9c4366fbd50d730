// LibTorch's versions of the simulator's operators on windows of an image
// (sim/workload/ops_window.cpp): torchvision's Swin transformer. Images are (samples, height,
// width, features). Includes ATen: only for .cpp files.
#pragma once

#include <ATen/ATen.h>

namespace lockstep {

struct WindowRule {
  std::int64_t size = 0;   // pixels of a side
  std::int64_t shift = 0;  // 0 = not rolled
};

// The windows lie one after the other in the result, which has the shape of the padded image.
at::Tensor cut_windows(const at::Tensor& image, const WindowRule& rule);
at::Tensor join_windows(const at::Tensor& windows, const WindowRule& rule, std::int64_t height,
                        std::int64_t width);
// `packed`: query, key and value as cut_windows() leaves them; `table`: a bias for every distance
// and head.
at::Tensor attend_in_windows(const at::Tensor& packed, const at::Tensor& table,
                             const WindowRule& rule, std::int64_t heads);
at::Tensor merge_patches(const at::Tensor& image);

}  // namespace lockstep
