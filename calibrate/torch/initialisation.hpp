// Initial values other than the layers' own. Apply them to a new network before training.
#pragma once

#include <cstdint>

#include "torch/real_network.hpp"

namespace lockstep {

// Draws the weights of convolutions as torchvision's VGG and ResNet do: normal with variance 2 /
// fan out (He et al. 2015, equation 14), and biases of zero. Other layers stay unchanged. Equal
// seeds give equal values.
void initialise_kaiming(RealNetwork& network, std::uint64_t seed);

}  // namespace lockstep
