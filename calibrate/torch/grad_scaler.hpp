// torch.amp.GradScaler's part of a training step with amp-fp16. Includes ATen.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "workload/precision.hpp"

namespace lockstep {

// Scales the loss, so that small gradients survive in fp16, and the gradients back, with the
// kernels of GradScaler and its read of found_inf by the host; the scale stays at GradScaler's
// initial 2^16. Does nothing for other precisions, and with LibTorch 1.13, which has no such
// kernels for CPUs.
class GradScaler {
 public:
  GradScaler(Precision precision, at::Device device);

  at::Tensor scale(const at::Tensor& loss) const { return active_ ? loss * factor_ : loss; }
  // Divides the gradients of `parameters` by the scale. False: one is infinite or no number, and
  // the update is to be left out, as GradScaler does.
  bool unscale(const std::vector<at::Tensor>& parameters);

 private:
  bool active_;
  at::Tensor factor_, inverse_, found_inf_;
};

}  // namespace lockstep
