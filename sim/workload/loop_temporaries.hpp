// Temporary tensors that an optimizer's for-loop implementation makes for each parameter, in bytes
// per element. costs/optimizer.hpp computes them, and memory/optimizer_state.hpp allocates them.
#pragma once

namespace lockstep {

// The members are in the order of allocation (torch.optim: _single_tensor_adam,
// _single_tensor_rmsprop, _single_tensor_sgd).
struct LoopTemporaries {
  double decayed = 0;  // the gradient with the weight decay added
  double scratch = 0;  // Adam's square root, which is freed when the denominator exists
  double kept = 0;     // the denominator, which is freed after the next tensor has its own

  bool operator==(const LoopTemporaries&) const = default;
};

}  // namespace lockstep
