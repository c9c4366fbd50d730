// torch.amp.GradScaler's part of a training step with amp-fp16. Includes ATen.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "workload/precision.hpp"

namespace lockstep {

// Scales the loss, so that small gradients survive in fp16, and the gradients back, with the
// kernels and the defaults of GradScaler and its read of found_inf by the host. Does nothing for
// other precisions, and on CPUs with LibTorch before 2.4, which has no such kernels for them.
class GradScaler {
 public:
  GradScaler(Precision precision, at::Device device);

  at::Tensor scale(const at::Tensor& loss) const { return active_ ? loss * factor_ : loss; }
  // Divides the gradients of `parameters` by the scale, and sets the next step's. False: one is
  // infinite or no number, and the update is to be left out, as GradScaler does.
  bool unscale(const std::vector<at::Tensor>& parameters);

 private:
  bool active_;
  at::Tensor factor_;     // the scale
  at::Tensor growth_;     // steps since it changed
  at::Tensor found_inf_;  // 1: a gradient was not finite
};

}  // namespace lockstep
