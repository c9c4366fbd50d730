// Generators of schedules, one for each family: the program of one rank. Shapes have no misfits.
#pragma once

#include "parallel/schedule.hpp"

namespace lockstep::schedules {

RankProgram gpipe(const PipelineShape& shape);
RankProgram one_forward_one_backward(const PipelineShape& shape, int rank);
RankProgram interleaved(const PipelineShape& shape, int rank);
RankProgram looped_breadth_first(const PipelineShape& shape);
// `reach` 1: ZB-H1, with chunks PyTorch's InterleavedZeroBubble; 2: ZB-H2.
RankProgram zero_bubble(const PipelineShape& shape, int rank, int reach);
RankProgram zero_bubble_v(const PipelineShape& shape, int rank);
RankProgram dual_pipe_v(const PipelineShape& shape, int rank);

// A micro-batch in a chunk.
struct ChunkPass {
  int chunk = 0;
  int micro = 0;
};
// All forwards of an interleaved schedule: a group of micro-batches through the first chunk, through the
// second, and so on, then the next group. Backwards go from the last chunk to the first.
std::vector<ChunkPass> interleaved_forwards(const PipelineShape& shape);
std::vector<ChunkPass> interleaved_backwards(const PipelineShape& shape);
// Micro-batches of such a group.
int group_size(const PipelineShape& shape);

}  // namespace lockstep::schedules
