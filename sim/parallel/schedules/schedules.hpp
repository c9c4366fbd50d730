// Generators of pipeline schedules, one for each family. Each returns the program of one rank,
// without messages; programs_of() of parallel/schedule.hpp calls them.
// REQUIRES: misfits_of() is empty for the shape.
#pragma once

#include "parallel/schedule.hpp"

namespace lockstep::schedules {

RankProgram gpipe(const PipelineShape& shape);
RankProgram one_forward_one_backward(const PipelineShape& shape, int rank);
RankProgram interleaved(const PipelineShape& shape, int rank);
RankProgram looped_breadth_first(const PipelineShape& shape);
// reach = 1: ZB-H1, or with several chunks PyTorch's InterleavedZeroBubble. reach = 2: ZB-H2.
RankProgram zero_bubble(const PipelineShape& shape, int rank, int reach);
RankProgram zero_bubble_v(const PipelineShape& shape, int rank);
RankProgram dual_pipe_v(const PipelineShape& shape, int rank);

// One pass of a micro-batch through a chunk.
struct ChunkPass {
  int chunk = 0;
  int micro = 0;
};
// All forwards of an interleaved schedule in order: a group of micro-batches goes through the first
// chunk, then through the second, and so on; then the next group follows. Backwards go from the
// last chunk to the first. Example with 2 chunks and groups of 3, written as chunk.micro:
//
//   forwards   0.0 0.1 0.2  1.0 1.1 1.2  0.3 0.4 0.5  1.3 ...
//   backwards  1.0 1.1 1.2  0.0 0.1 0.2  1.3 ...
std::vector<ChunkPass> interleaved_forwards(const PipelineShape& shape);
std::vector<ChunkPass> interleaved_backwards(const PipelineShape& shape);
// Number of micro-batches in a group: the shape's `group`, or PyTorch's default.
int group_size(const PipelineShape& shape);

}  // namespace lockstep::schedules
