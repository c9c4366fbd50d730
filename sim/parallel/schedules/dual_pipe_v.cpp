// DualPipeV: DualPipe (DeepSeek-V3, arXiv 2412.19437) cut in half, as in github.com/deepseek-ai/DualPipe and
// PyTorch's ScheduleDualPipeV. Two chunks on each rank in a V; a forward stands before the backward of another
// micro-batch that it can run beside.
#include <array>
#include <deque>

#include "parallel/schedules/schedules.hpp"

namespace lockstep::schedules {
namespace {

class DualWriter {
 public:
  void forward(int chunk) { program.push_back({Deed::forward, chunk, forwards_[chunk]++}); }
  void backward(int chunk) { program.push_back({Deed::backward, chunk, backwards_[chunk]++}); }
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
  // The oldest gradient of weights that `input` has left; nothing if there is none.
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

// The eight steps of dualpipev.py.
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
    // The last rank does not wait for the first pair.
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
  // The second half of the backwards leaves gradients of weights to the end; an odd rank begins with the
  // second chunk's.
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
