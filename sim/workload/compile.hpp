// Model of torch.compile as a transformation of a finished training step. Chains of elementwise
// work, norms and softmax become one kernel each, as Inductor fuses them, and AOTAutograd's min-cut
// partitioner chooses the tensors that are saved for backward. build_step() applies this
// transformation last.
#pragma once

#include <array>
#include <cstdint>

#include "core/fields.hpp"
#include "workload/step.hpp"

namespace lockstep {

// The parts of a model each of which becomes one compiled graph.
enum class Compile : std::uint8_t {
  none,
  blocks,  // each repeated block, and the loss, is a graph of its own (torchtitan: apply_compile)
  whole,   // the model with its loss
};
template <>
struct EnumNames<Compile> {
  static constexpr std::array names{"none", "blocks", "whole"};
};

// The step with its graphs compiled. Layers have the same names, parameters, products and exchanges
// as before. A fused kernel does the work of several layers. It is stored in the last of these
// layers in forward and in the first one in backward, because its result is needed there. A value
// that no other kernel reads stays in registers and has 0 bytes.
TrainingStep compiled(TrainingStep step, Compile compile);

// The step with hand-written fused kernels, as Megatron-LM with Transformer Engine or Liger has
// them. A norm, a rotary embedding, a gated activation, a dropout with its sum, and the loss are
// each one kernel in forward and one in backward. The step is still eager: the host dispatches
// every layer.
TrainingStep with_fused_kernels(TrainingStep step);

}  // namespace lockstep
