// A reduce-scatter for ProcessGroupGloo of LibTorch 1.13, which has none. It is the first half of
// Gloo's ring all-reduce, on Gloo's connections and in its queue of collectives. In each of N-1
// steps, a rank sends one part to its right neighbour and adds one part from its left neighbour, in
// segments, so that adding overlaps with the transfer. Each rank sends (N-1)/N of the input, as in
// NCCL's ring. An all-to-all with a local sum would send the same bytes, but with N-1 buffers and
// between all pairs of ranks at once; an all-reduce would send twice as much. Only
// process_group.cpp uses it.
#pragma once

#include <ATen/ATen.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep {

#if TORCH_VERSION_MAJOR == 1

class GlooWithRing : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;
  // Sums over the ranks. `input` has the group's size times the elements of `output`. Both must be
  // contiguous.
  c10::intrusive_ptr<c10d::Work> ring_reduce_scatter(const at::Tensor& output,
                                                     const at::Tensor& input);
};

#else
using GlooWithRing = c10d::ProcessGroupGloo;
#endif

}  // namespace lockstep
