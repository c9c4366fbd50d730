// The gradient tensors of a model, in the order in which the model defines its parameters.
// Strategies form buckets, units and shards from them. Frozen parameters have no gradient and are
// left out.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

// A gradient tensor. A parameter that several layers share has one gradient tensor. It is complete
// after the backward of the first of these layers in the order of forward.
struct GradientTensor {
  double elements = 0;
  int element_bytes = 4;
  std::vector<std::int64_t> shape;
  int layer = 0;        // the layer that completes it in backward
  bool expert = false;  // reduced over the ranks that hold the same experts
};

// The gradients of all trainable parameters, in definition order, with `element_bytes` bytes for
// each element.
std::vector<GradientTensor> gradient_tensors(const TrainingStep& step, int element_bytes);

}  // namespace lockstep
