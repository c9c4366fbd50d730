#include "torch/grad_scaler.hpp"

#include <torch/version.h>

namespace lockstep {

GradScaler::GradScaler(Precision precision, at::Device device)
    : active_(precision == Precision::amp_fp16 && (TORCH_VERSION_MAJOR >= 2 || device.is_cuda())) {
  if (!active_) return;
  const auto options = at::TensorOptions(at::kFloat).device(device);
  factor_ = at::full({}, 65536.0, options);
  inverse_ = at::full({}, 1 / 65536.0, options);
  found_inf_ = at::zeros({}, options);
}

bool GradScaler::unscale(const std::vector<at::Tensor>& parameters) {
  if (!active_) return true;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return true;
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse_);
  return found_inf_.item<float>() == 0;
}

}  // namespace lockstep
