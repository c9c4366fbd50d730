// DualPipeV: one half of DualPipe (DeepSeek-V3, arXiv 2412.19437), as in
// github.com/deepseek-ai/DualPipe and PyTorch's ScheduleDualPipeV. Each rank has two chunks, placed
// in a V. A forward and the backward of another micro-batch run together, so that the exchanges of
// one overlap with the compute of the other.
#include <array>
#include <deque>

#include "parallel/schedules/schedules.hpp"

namespace lockstep::schedules {
namespace {

// Appends actions. Each chunk's micro-batches have ascending numbers.
class DualWriter {
 public:
  void forward(int chunk) { program.push_back({Deed::forward, chunk, forwards_[chunk]++}); }
  void backward(int chunk) { program.push_back({Deed::backward, chunk, backwards_[chunk]++}); }
  // A forward and a backward that run together.
  void pair(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    program.back().with_next = true;
    backward(backward_chunk);
  }
  void input(int chunk) {
    const Action action{Deed::backward_input, chunk, backwards_[chunk]++};
    program.push_back(action);
    left_.push_back(action);
  }
  // Appends the oldest weight gradient that input() has postponed; does nothing if there is none.
  void weight() {
    if (left_.empty()) return;
    program.push_back({Deed::backward_weight, left_.front().chunk, left_.front().micro});
    left_.pop_front();
  }

  RankProgram program;

 private:
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Action> left_;
};

}  // namespace

// The loops are the eight steps of dualpipev.py, in the same order.
RankProgram dual_pipe_v(const PipelineShape& shape, int rank) {
  const int after = shape.stages - 1 - rank;
  DualWriter write;
  for (int i = 0; i < 2 * after; ++i) write.forward(0);
  for (int i = 0; i <= rank; ++i) {
    write.forward(0);
    write.forward(1);
  }
  for (int i = 0; i < after; ++i) {
    write.input(1);
    write.weight();
    write.forward(1);
  }
  for (int i = 0; i < shape.micro_batches - 2 * shape.stages + rank + 1; ++i) {
    // The last rank runs its first forward and backward one after the other, which shortens the
    // bubble (dualpipev.py).
    if (i == 0 && after == 0) {
      write.forward(0);
      write.backward(1);
    } else {
      write.pair(0, 1);
    }
    write.pair(1, 0);
  }
  for (int i = 0; i < after; ++i) {
    write.backward(1);
    write.pair(1, 0);
  }
  // The second half of these backwards postpones weight gradients to the end.
  for (int i = 0; i < 2 * (rank + 1); ++i) {
    const int chunk = i % 2 == 0 ? 1 : 0;
    if (i > rank) {
      write.input(chunk);
    } else {
      write.backward(chunk);
    }
  }
  for (int i = 0; i < after; ++i) {
    write.weight();
    write.input(0);
  }
  for (int i = 0; i <= rank; ++i) write.weight();
  return std::move(write.program);
}

}  // namespace lockstep::schedules
