// ZB-V (Qi et al. 2023, arXiv 2401.10241, section 6): two chunks on each rank, the second in
// reverse order of ranks, so that the first rank has the model's first and last part. The loops
// below follow PyTorch's ScheduleZBVZeroBubble phase by phase: warm-up, steady state, drain.
#include <algorithm>
#include <array>

#include "parallel/schedules/schedules.hpp"

namespace lockstep::schedules {
namespace {

// Appends actions. Counts, for each chunk and each of the three passes, the micro-batches that are
// done.
class VWriter {
 public:
  explicit VWriter(int micro_batches) : micro_batches_(micro_batches) {}

  int forwards(int chunk) const { return next_[chunk][0]; }
  void forward(int chunk) { add(Deed::forward, chunk, 0); }
  void input(int chunk) { add(Deed::backward_input, chunk, 1); }
  void weight(int chunk) { add(Deed::backward_weight, chunk, 2); }
  void both(int chunk) {
    input(chunk);
    weight(chunk);
  }
  // Appends all weight gradients of the chunk whose input gradients have been appended.
  void left_weights(int chunk) {
    while (next_[chunk][2] < next_[chunk][1]) weight(chunk);
  }
  RankProgram program() && { return std::move(program_); }

 private:
  // The pattern needs at least 2 x stages - 1 micro-batches. Numbers beyond the step's own
  // micro-batches are counted, but their actions are not appended.
  void add(Deed deed, int chunk, std::size_t counter) {
    const int micro = next_[chunk][counter]++;
    if (micro < micro_batches_) program_.push_back({deed, chunk, micro});
  }

  int micro_batches_;
  // by chunk; counters of forward, input gradient, weight gradient
  std::array<std::array<int, 3>, 2> next_{};
  RankProgram program_;
};

}  // namespace

RankProgram zero_bubble_v(const PipelineShape& shape, int rank) {
  const int after = shape.stages - rank;
  const int micro_batches = std::max(2 * shape.stages - 1, shape.micro_batches);
  VWriter write(shape.micro_batches);
  for (int i = 0; i < 2 * after - 1; ++i) write.forward(0);
  for (int i = 0; i < rank; ++i) {
    write.forward(1);
    write.forward(0);
  }
  for (int i = 0; i < after; ++i) {
    write.forward(1);
    write.both(1);
  }
  while (write.forwards(1) < write.forwards(0) || write.forwards(0) < micro_batches) {
    if (write.forwards(0) < micro_batches) write.forward(0);
    write.both(0);
    write.forward(1);
    write.both(1);
  }
  for (int i = 0; i < rank; ++i) {
    write.input(0);
    write.input(1);
  }
  for (int i = 0; i < after; ++i) {
    write.input(0);
    write.weight(0);
  }
  write.left_weights(1);
  write.left_weights(0);
  return std::move(write).program();
}

}  // namespace lockstep::schedules
