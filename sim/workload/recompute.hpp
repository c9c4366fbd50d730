// Rules of activation checkpointing: the operators whose outputs are freed after forward and
// computed a second time in backward, which trades time for memory. Unless
// TensorOptions::repeat_last_exchange is set, a block's last exchange and the work after it are not
// repeated if that work saves nothing for backward. checkpoints.cpp applies the rule to a step;
// memory/liveness.cpp derives the lifetimes.
#pragma once

#include <array>
#include <cstdint>

#include "core/fields.hpp"

namespace lockstep {

enum class Recompute : std::uint8_t {
  blocks,  // all of each repeated block ("full"; Chen et al., "Training Deep Nets with Sublinear
           // Memory Cost", 2016)
  // only the attention operator, as Megatron-LM's selective recomputation (Korthikanti et al.,
  // "Reducing Activation Recomputation in Large Transformer Models", section 5)
  attention,
  // each repeated block, but without its fused attention, its first, third, ... matrix product, and
  // the exchanges whose results are stored (TensorOptions::dtensor, ExpertOptions::keep_exchanged),
  // as torchtitan's policy `op` with PyTorch's selective checkpointing
  operators,
};
template <>
struct EnumNames<Recompute> {
  static constexpr std::array names{"blocks", "attention", "operators"};
};

}  // namespace lockstep
