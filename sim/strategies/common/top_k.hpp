// The device work of top-k compression: selecting the largest elements of gradients, and keeping
// the other elements for the next step (error feedback). Used by DDP's `comm_hook: top-k` and by
// the parameter server's `push_compression: top_k`.
#pragma once

#include "costs/compute.hpp"

namespace lockstep {

// Number of passes over all elements in addition to the selection, because unsent values are stored
// for the next step (Lin et al. 2018): read the stored values, read the gradient, write the sum
// without the sent values.
inline constexpr double feedback_passes = 3;

// Work for `bytes` of gradients in `tensors` tensors; each tensor is selected separately. PyTorch's
// top-k over one long row is a radix selection: each of four passes over the data examines 8 of 32
// bits, and a fifth pass gathers (aten/src/ATen/native/cuda/TensorTopK.cu, mbtopk). A tensor needs
// 14 launches: three for each of the four passes, one to gather and one for the feedback.
inline QueuedWork top_k_work(const ComputeCosts& costs, double bytes, int tensors) {
  return costs.stream((5 + feedback_passes) * bytes, 14 * tensors);
}

// The work in PyTorch before 1.12: a single block makes 16 passes, each of which examines 2 of 32
// bits, and gathers in two more (SortingRadixSelect.cuh, RADIX_BITS). Two million fp32 numbers take
// 25.6 ms on a P100 (pytorch issue 22812). This means that the block reads at 0.54 of one
// multiprocessor's share of the memory bandwidth in that device's file. `multiprocessors` is the
// device's number of multiprocessors.
inline QueuedWork one_block_top_k_work(const ComputeCosts& costs, double bytes, int tensors,
                                       int multiprocessors) {
  return append(costs.stream(18 / 0.54 * multiprocessors * bytes, tensors),
                costs.stream(feedback_passes * bytes, 2 * tensors));
}

}  // namespace lockstep
