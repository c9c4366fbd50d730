// Schedules that run all forwards before all backwards: GPipe (Huang et al. 2019, arXiv 1811.06965)
// with one chunk, and looped breadth-first (Lamy-Poirier 2022, arXiv 2211.05953) with several. All
// ranks have the same program, and every micro-batch is in flight at the end of forward.
#include "parallel/schedules/schedules.hpp"

namespace lockstep::schedules {

// Backwards take micro-batches in their order, as in PyTorch (ScheduleGPipe). Within a micro-batch
// they run from the last token slice to the first: the gradients of a slice's keys and values are
// complete only when all later slices, which read them, are done (TeraPipe: Li et al. 2021, section
// 3).
RankProgram gpipe(const PipelineShape& shape) {
  RankProgram program;
  for (int micro = 0; micro < shape.micro_batches; ++micro) {
    program.push_back({Deed::forward, 0, micro});
  }
  for (int first = 0; first < shape.micro_batches; first += shape.slices) {
    for (int slice = shape.slices - 1; slice >= 0; --slice) {
      program.push_back({Deed::backward, 0, first + slice});
    }
  }
  return program;
}

// All micro-batches go through a chunk before the next chunk begins. Backward is the mirror image,
// both in chunks and in micro-batches.
RankProgram looped_breadth_first(const PipelineShape& shape) {
  RankProgram program;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int micro = 0; micro < shape.micro_batches; ++micro) {
      program.push_back({Deed::forward, chunk, micro});
    }
  }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int micro = shape.micro_batches - 1; micro >= 0; --micro) {
      program.push_back({Deed::backward, chunk, micro});
    }
  }
  return program;
}

}  // namespace lockstep::schedules
