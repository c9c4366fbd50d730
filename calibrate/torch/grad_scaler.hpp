// Loss scaling, torch.amp.GradScaler's part of a training step with amp-fp16. Includes ATen.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "workload/precision.hpp"

namespace lockstep {

// Multiplies the loss by a scale, so that small gradients do not vanish in fp16, and divides the
// gradients by the scale. Kernels, defaults and the host's read of found_inf are GradScaler's. Does
// nothing for other precisions, and on CPUs with LibTorch before 2.4, which lacks these kernels for
// CPUs.
class GradScaler {
 public:
  GradScaler(Precision precision, at::Device device);

  at::Tensor scale(const at::Tensor& loss) const { return active_ ? loss * factor_ : loss; }
  // Divides the gradients of `parameters` by the scale, and sets the scale of the next step.
  // Returns false if a gradient is infinite or no number; the caller must then skip the update, as
  // GradScaler does.
  bool unscale(const std::vector<at::Tensor>& parameters);

 private:
  bool active_;
  at::Tensor factor_;     // the scale
  at::Tensor growth_;     // steps since the scale changed
  at::Tensor found_inf_;  // 1: a gradient was not finite
};

}  // namespace lockstep
