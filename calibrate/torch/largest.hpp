// Selects the largest elements of gradients. The hooks of real DDP, the replay's hooks and its
// pushes share this selection.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

namespace lockstep {

// Indices of a flat tensor's elements with the largest absolute values, unsorted. Their number is
// `share` of all elements, rounded up.
inline at::Tensor largest_places(const at::Tensor& flat, double share) {
  const double count = std::ceil(share * static_cast<double>(flat.numel()));
  return std::get<1>(flat.abs().topk(static_cast<std::int64_t>(count), 0, true, false));
}

}  // namespace lockstep
