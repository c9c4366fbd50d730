// The tensors that an optimizer's for-loop form makes for each parameter, bytes per element.
#pragma once

namespace lockstep {

// In order (torch.optim, _single_tensor_adam, _single_tensor_rmsprop, _single_tensor_sgd).
struct LoopTemporaries {
  double decayed = 0;  // the gradient with the weight decay added
  double scratch = 0;  // Adam's square root, until it has the denominator
  double kept = 0;  // the denominator, which the variable holds until the next tensor has its own

  bool operator==(const LoopTemporaries&) const = default;
};

}  // namespace lockstep
