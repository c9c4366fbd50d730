// Gradient tensors of a model in the order of its definition. Strategies form buckets, units and
// shards from them. Frozen parameters have no gradient and are left out.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

// A gradient tensor. A parameter that several layers share is one tensor. Its gradient is complete
// after the backward of the layer that comes first in forward.
struct GradientTensor {
  double elements = 0;
  int element_bytes = 4;
  std::vector<std::int64_t> shape;
  int layer = 0;        // the layer that completes it in backward
  bool expert = false;  // reduced over the ranks that hold the same experts
};

// The gradients of all trainable parameters, in definition order. `element_bytes`: size of one
// element of each.
std::vector<GradientTensor> gradient_tensors(const TrainingStep& step, int element_bytes);

}  // namespace lockstep
