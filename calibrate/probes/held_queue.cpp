// Keeps a stream busy with matrix products of known duration. The constructor measures the duration
// of one product, from which hold() computes their number.
#include "probes/held_queue.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "torch/clock.hpp"

namespace lockstep {

HeldQueue::HeldQueue(at::Device device) {
  if (device.is_cpu()) return;
  const at::NoGradGuard no_gradients;
  constexpr int products = 20;
  matrix_ = at::zeros({2048, 2048}, at::TensorOptions(at::kFloat).device(device));
  product_ = at::empty_like(matrix_);
  at::mm_out(product_, matrix_, matrix_);  // loads the library
  Clock clock(device);
  clock.start();
  for (int i = 0; i < products; ++i) at::mm_out(product_, matrix_, matrix_);
  clock.mark();
  seconds_each_ = clock.seconds().back() / products;
}

void HeldQueue::hold(double seconds) {
  if (!matrix_.defined()) return;
  const at::NoGradGuard no_gradients;
  const int products = static_cast<int>(std::ceil(seconds / seconds_each_));
  for (int i = 0; i < products; ++i) at::mm_out(product_, matrix_, matrix_);
}

}  // namespace lockstep
