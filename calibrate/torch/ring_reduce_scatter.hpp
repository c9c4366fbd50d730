// ProcessGroupGloo 1.13 has no reduce-scatter. This one is the first half of Gloo's own ring
// all-reduce, on Gloo's connections and in its queue of collectives: N-1 steps, each rank sends one
// part to its right and adds one from its left, in segments, so that adding overlaps with the
// transfer. It sends (N-1)/N of the input per rank, as NCCL's ring does; all-to-all with a local
// sum sends the same bytes, but from everybody to everybody at once and with N-1 buffers, and
// all-reduce followed by a slice sends twice as much. For process_group.cpp only.
#pragma once

#include <ATen/ATen.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep {

#if TORCH_VERSION_MAJOR == 1

class GlooWithRing : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;
  // Sum; input holds size x the elements of output. Both contiguous.
  c10::intrusive_ptr<c10d::Work> ring_reduce_scatter(const at::Tensor& output,
                                                     const at::Tensor& input);
};

#else
using GlooWithRing = c10d::ProcessGroupGloo;
#endif

}  // namespace lockstep
