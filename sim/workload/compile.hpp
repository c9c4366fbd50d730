// torch.compile: chains of elementwise work, norms and softmax become one kernel each, as Inductor fuses
// them, and backward keeps the tensors that AOTAutograd's min-cut partitioner keeps.
#pragma once

#include <array>
#include <cstdint>

#include "core/fields.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Parts of a model that torch.compile makes a graph of.
enum class Compile : std::uint8_t {
  none,
  blocks,  // each repeated block, and the loss, by itself (torchtitan: apply_compile)
  whole,   // the model with its loss
};
template <>
struct EnumNames<Compile> {
  static constexpr std::array names{"none", "blocks", "whole"};
};

// The step with its graphs compiled. Layers keep their names, parameters, products and exchanges.
// A fused kernel stands at the last of its layers in forward, at the first in backward; a value that
// only fused kernels read has no bytes.
TrainingStep compiled(TrainingStep step, Compile compile);

// The step with hand-written kernels, as Megatron-LM with Transformer Engine or Liger has them: a norm, a
// rotary embedding, a gated activation, a dropout with its sum and the loss are one kernel each way, eager.
TrainingStep with_fused_kernels(TrainingStep step);

}  // namespace lockstep
