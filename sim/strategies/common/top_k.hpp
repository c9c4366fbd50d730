// The cost of selecting the largest elements of gradients, and of keeping the others. Used by DDP
// hooks and parameter servers with top-k compression.
#pragma once

#include "costs/compute.hpp"

namespace lockstep {

// Passes over all elements in addition to the selection: unsent values are kept for the next step
// (Lin et al. 2018). Read them and the gradient, write the sum, and clear the sent values.
inline constexpr double feedback_passes = 3;

// `bytes` of gradients in `tensors` tensors, each by itself. PyTorch's top-k over one long row
// selects by radix, 8 of 32 bits in each pass over the data, and then gathers
// (aten/src/ATen/native/cuda/TensorTopK.cu, mbtopk): five times read. Launches: three of each pass,
// gather and feedback.
inline QueuedWork top_k_work(const ComputeCosts& costs, double bytes, int tensors) {
  return costs.stream((5 + feedback_passes) * bytes, 14 * tensors);
}

// The same by PyTorch before 1.12: one block selects 2 of 32 bits in each pass and gathers in two
// more (SortingRadixSelect.cuh, RADIX_BITS). Two million fp32 numbers take 25.6 ms on a P100
// (pytorch issue 22812): one block reads at 0.54 of one multiprocessor's share of the memory
// bandwidth of that device's file.
inline QueuedWork one_block_top_k_work(const ComputeCosts& costs, double bytes, int tensors,
                                       int multiprocessors) {
  return append(costs.stream(18 / 0.54 * multiprocessors * bytes, tensors),
                costs.stream(feedback_passes * bytes, 2 * tensors));
}

}  // namespace lockstep
