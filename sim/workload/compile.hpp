// Model of torch.compile as a transformation of a finished training step: chains of elementwise
// work, norms and softmax become one kernel each, as Inductor fuses them, and backward keeps the
// tensors that AOTAutograd's min-cut partitioner chooses. build_step() applies it last.
#pragma once

#include <array>
#include <cstdint>

#include "core/fields.hpp"
#include "workload/step.hpp"

namespace lockstep {

// The parts of a model that become one compiled graph each.
enum class Compile : std::uint8_t {
  none,
  blocks,  // each repeated block, and the loss, by itself (torchtitan: apply_compile)
  whole,   // the model with its loss
};
template <>
struct EnumNames<Compile> {
  static constexpr std::array names{"none", "blocks", "whole"};
};

// The step with its graphs compiled. Layers keep their names, parameters, products and exchanges. A
// fused kernel stands in its last layer in forward and in its first layer in backward, where its
// result is needed. A value that no other kernel reads stays in registers and has 0 bytes.
TrainingStep compiled(TrainingStep step, Compile compile);

// The step with hand-written fused kernels, as Megatron-LM with Transformer Engine or Liger has
// them: a norm, a rotary embedding, a gated activation, a dropout with its sum, and the loss are
// one kernel each way. The step stays eager: the host dispatches every layer.
TrainingStep with_fused_kernels(TrainingStep step);

}  // namespace lockstep
