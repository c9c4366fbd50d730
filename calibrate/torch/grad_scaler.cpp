// Loss scaling with GradScaler's defaults and kernels (torch/amp/grad_scaler.py). The scale doubles
// after 2000 updates without infinite gradients, and is halved after an infinite gradient.
#include "torch/grad_scaler.hpp"

#include <torch/version.h>

namespace lockstep {

namespace {

// GradScaler's defaults.
constexpr double initial_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
constexpr std::int64_t growth_interval = 2000;

constexpr bool kernels_for_cpus = TORCH_VERSION_MAJOR > 2 ||
                                  (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4);

}  // namespace

GradScaler::GradScaler(Precision precision, at::Device device)
    : active_(precision == Precision::amp_fp16 && (kernels_for_cpus || device.is_cuda())) {
  if (!active_) return;
  const auto options = at::TensorOptions(at::kFloat).device(device);
  factor_ = at::full({}, initial_scale, options);
  growth_ = at::zeros({}, options.dtype(at::kInt));
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
  const at::Tensor inverse = factor_.to(at::kDouble).reciprocal().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse);
  at::_amp_update_scale_(factor_, growth_, found_inf_, growth_factor, backoff_factor,
                         growth_interval);
  return found_inf_.item<float>() == 0;
}

}  // namespace lockstep
