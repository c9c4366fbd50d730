// Schedules that, after a warm-up of forwards, alternate one forward and one backward: 1F1B, also
// called PipeDream-Flush (Narayanan et al. 2021, arXiv 2006.09503), with one chunk, and
// Megatron-LM's interleaved schedule (Narayanan et al. 2021, arXiv 2104.04473) with several. The
// warm-up fills the time until a rank's first backward can run.
#include <algorithm>

#include "parallel/schedules/schedules.hpp"

namespace lockstep::schedules {

int group_size(const PipelineShape& shape) {
  if (shape.group > 0) return shape.group;
  return shape.micro_batches / std::max(1, shape.micro_batches / shape.stages);
}

namespace {

// The passes of all micro-batches through all chunks, group by group. The last group may be smaller
// than the others.
std::vector<ChunkPass> passes(const PipelineShape& shape, bool backward) {
  const int group = group_size(shape);
  std::vector<ChunkPass> result;
  for (int first = 0; first < shape.micro_batches; first += group) {
    const int end = std::min(first + group, shape.micro_batches);
    for (int i = 0; i < shape.chunks; ++i) {
      const int chunk = backward ? shape.chunks - 1 - i : i;
      for (int micro = first; micro < end; ++micro) result.push_back({chunk, micro});
    }
  }
  return result;
}

// A program of `ahead` forwards, then one forward before each backward, as long as forwards are
// left.
RankProgram alternating(const std::vector<ChunkPass>& forwards,
                        const std::vector<ChunkPass>& backwards, std::size_t ahead) {
  RankProgram program;
  const auto forward = [&](const ChunkPass& pass) {
    program.push_back({Deed::forward, pass.chunk, pass.micro});
  };
  ahead = std::min(ahead, forwards.size());
  for (std::size_t i = 0; i < ahead; ++i) forward(forwards[i]);
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (i + ahead < forwards.size()) forward(forwards[i + ahead]);
    program.push_back({Deed::backward, backwards[i].chunk, backwards[i].micro});
  }
  return program;
}

}  // namespace

std::vector<ChunkPass> interleaved_forwards(const PipelineShape& shape) {
  return passes(shape, false);
}
std::vector<ChunkPass> interleaved_backwards(const PipelineShape& shape) {
  return passes(shape, true);
}

// The warm-up of a rank has one forward for each stage behind it.
RankProgram one_forward_one_backward(const PipelineShape& shape, int rank) {
  return alternating(passes(shape, false), passes(shape, true),
                     static_cast<std::size_t>(shape.stages - 1 - rank));
}

// The warm-up of the last stage is one group through all chunks but the last. Each stage before it
// has two forwards more than the next stage: one for the path to the last stage and one for the
// path back (Megatron-LM, get_pp_rank_microbatches; PyTorch, _get_warmup_ops).
RankProgram interleaved(const PipelineShape& shape, int rank) {
  const int ahead = (shape.chunks - 1) * group_size(shape) + 2 * (shape.stages - 1 - rank);
  return alternating(passes(shape, false), passes(shape, true), static_cast<std::size_t>(ahead));
}

}  // namespace lockstep::schedules
