// The training code, whose layers, losses and gradients differ from plain PyTorch modules'.
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
