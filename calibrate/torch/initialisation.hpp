// Initial values other than the layers' own. Apply them to a new network before training.
#pragma once

#include <cstdint>

#include "torch/real_network.hpp"

namespace lockstep {

// Convolutions as torchvision's VGG and ResNet begin: normal, of variance 2 / fan out (He et al.
// 2015, equation 14), biases of zero. Everything else stays. The same for the same seed.
void initialise_kaiming(RealNetwork& network, std::uint64_t seed);

}  // namespace lockstep
