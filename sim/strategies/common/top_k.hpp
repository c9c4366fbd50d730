// The device work of top-k compression: selecting the largest elements of gradients, and keeping
// the others for the next step (error feedback). Used by DDP's `comm_hook: top-k` and by the
// parameter server's `push_compression: top_k`.
#pragma once

#include "costs/compute.hpp"

namespace lockstep {

// Passes over all elements in addition to the selection, because unsent values are kept for the
// next step (Lin et al. 2018): read the kept values, read the gradient, write the sum with the sent
// values cleared.
inline constexpr double feedback_passes = 3;

// Work for `bytes` of gradients in `tensors` tensors, each selected by itself. PyTorch's top-k over
// one long row selects by radix, 8 of 32 bits in each of four passes over the data, and gathers in
// a fifth (aten/src/ATen/native/cuda/TensorTopK.cu, mbtopk). Launches of a tensor: three for each
// of the four passes, one to gather and one for the feedback.
inline QueuedWork top_k_work(const ComputeCosts& costs, double bytes, int tensors) {
  return costs.stream((5 + feedback_passes) * bytes, 14 * tensors);
}

// The work in PyTorch before 1.12: a single block selects 2 of 32 bits in each of 16 passes and
// gathers in two more (SortingRadixSelect.cuh, RADIX_BITS). Two million fp32 numbers take 25.6 ms
// on a P100 (pytorch issue 22812), so the block reads at 0.54 of one multiprocessor's share of the
// memory bandwidth in that device's file. `multiprocessors`: of the device.
inline QueuedWork one_block_top_k_work(const ComputeCosts& costs, double bytes, int tensors,
                                       int multiprocessors) {
  return append(costs.stream(18 / 0.54 * multiprocessors * bytes, tensors),
                costs.stream(feedback_passes * bytes, 2 * tensors));
}

}  // namespace lockstep
