// Names the training code. Its layers, loss and gradients keep other tensors than plain PyTorch
// modules, and its host takes another time per operator (costs/host.hpp).
#pragma once

#include <array>

#include "core/fields.hpp"

namespace lockstep {

enum class FrameworkKind { pytorch, megatron, nanotron };
template <>
struct EnumNames<FrameworkKind> {
  static constexpr std::array names{"pytorch", "megatron", "nanotron"};
};

}  // namespace lockstep
