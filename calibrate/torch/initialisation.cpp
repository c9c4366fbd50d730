// Draws He's initial values for convolutions (He et al. 2015, equation 14, fan out). Values are
// drawn on the CPU after seeding, so that the same seed gives the same network on every device.
#include "torch/initialisation.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace lockstep {

void initialise_kaiming(RealNetwork& network, std::uint64_t seed) {
  const at::NoGradGuard no_gradients;
  at::manual_seed(seed);
  for (NetworkParameter& parameter : network.parameters()) {
    const Layer& layer = network.step().layers[static_cast<std::size_t>(parameter.layer)];
    if (layer.kind != "conv") continue;
    at::Tensor& weight = parameter.tensor;
    if (weight.dim() == 1) {
      weight.detach().zero_();
      continue;
    }
    const auto fan_out = static_cast<double>(weight.size(0) * weight[0][0].numel());
    weight.detach().copy_(at::empty(weight.sizes(), at::kFloat).normal_(0, std::sqrt(2 / fan_out)));
  }
}

}  // namespace lockstep
