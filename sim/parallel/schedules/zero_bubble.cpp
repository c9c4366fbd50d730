// Zero-bubble schedules (Qi et al. 2023, arXiv 2401.10241). They divide backward: no other rank
// waits for gradients of weights, so these fill the time in which a rank would be idle. The
// generator covers ZB-H1, ZB-H2, and PyTorch's ScheduleInterleavedZeroBubble, which is ZB-H1 with
// several chunks.
#include <algorithm>

#include "parallel/schedules/schedules.hpp"

namespace lockstep::schedules {

// The warm-up of each stage has `reach` forwards more than that of the next stage, and each stage
// postpones `reach` more weight gradients than the stage before it. With reach = 1, as many
// micro-batches are in flight as in 1F1B. With reach = 2 (ZB-H2), the first stage has 2 x stages -
// 1 micro-batches in flight; if the three passes take equal times, no rank waits between its first
// and its last action.
RankProgram zero_bubble(const PipelineShape& shape, int rank, int reach) {
  const std::vector<ChunkPass> forwards = interleaved_forwards(shape);
  const std::vector<ChunkPass> backwards = interleaved_backwards(shape);
  const std::size_t passes = forwards.size();
  const int lead = (shape.chunks - 1) * group_size(shape) + reach * (shape.stages - 1 - rank);
  const std::size_t ahead = std::min(static_cast<std::size_t>(lead), passes);
  const std::size_t late = std::min(static_cast<std::size_t>(reach * rank), passes);

  RankProgram program;
  const auto add = [&](Deed deed, const ChunkPass& pass) {
    program.push_back({deed, pass.chunk, pass.micro});
  };
  for (std::size_t i = 0; i < ahead; ++i) add(Deed::forward, forwards[i]);
  for (std::size_t i = 0; i < passes; ++i) {
    if (i + ahead < passes) add(Deed::forward, forwards[i + ahead]);
    add(Deed::backward_input, backwards[i]);
    if (i >= late) add(Deed::backward_weight, backwards[i - late]);
  }
  for (std::size_t i = passes - late; i < passes; ++i) add(Deed::backward_weight, backwards[i]);
  return program;
}

}  // namespace lockstep::schedules
