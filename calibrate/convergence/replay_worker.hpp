// A worker of the replay: its network, its batches, and the gradients that it pushes. Only
// replay.cpp uses it. Includes LibTorch.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "convergence/replay.hpp"
#include "runs/training_data.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

at::Tensor piece_of(const at::Tensor& whole, const ParameterPiece& piece);

// Scales the gradients to a total norm of at most `largest`, like torch.nn.utils.clip_grad_norm_.
void clip(const std::vector<at::Tensor>& gradients, double largest);

// A worker's gradients as it pushes them.
struct Pushed {
  std::vector<at::Tensor> gradients;  // by parameter
  // the parameters on which the gradients were computed, if the weighting needs them
  std::vector<at::Tensor> read;
  int open = 0;  // number of messages that no update has used yet
};

class ReplayWorker {
 public:
  // `order`: the order of the worker's images.
  ReplayWorker(const TrainingStep& step, const UpdateSchedule& schedule, ShardOrder order,
               const LearningPlan& plan, int number)
      : plan_(plan),
        schedule_(schedule),
        number_(static_cast<std::size_t>(number)),
        network_(step, at::kCPU, plan.seed),
        order_(std::move(order)),
        local_(plan.optimizer, network_),
        taken_(static_cast<std::size_t>(schedule.message_count()), 0),
        given_(taken_.size(), 0),
        waiting_(taken_.size()),
        read_(taken_.size()) {}

  std::size_t number() const { return number_; }
  RealNetwork& network() { return network_; }
  Optimizer& local() { return local_; }
  bool has_computed(std::int64_t push) const { return push < computed_; }
  // next_push() returns the number (from 0) of the message's next push and counts it;
  // pushes_taken() is the count. next_read() does the same for versions that the worker reads.
  std::int64_t next_push(int message) { return taken_[at(message)]++; }
  std::int64_t pushes_taken(int message) const { return taken_[at(message)]; }
  std::int64_t next_read(int message) { return given_[at(message)]++; }
  // Versions that are ready although the worker has not yet computed its previous push; it loads
  // them after that push.
  std::deque<std::vector<at::Tensor>>& waiting(int message) { return waiting_[at(message)]; }

  // The pieces of a message as the worker has read them last (only for Exchange::differences).
  std::vector<at::Tensor>& read(int message) { return read_[at(message)]; }

  // Adds the gradients of the next batch to the network's gradients; returns the loss.
  double gradients(const ImageBatches& batches, const Images& images);
  void clip_gradients();
  void drop_gradients() { network_.drop_gradients(); }
  void push(const std::vector<std::vector<ParameterPiece>>& messages);
  void count_computed() { ++computed_; }

  // A push that has messages that no update has used yet.
  const Pushed& pushed(std::int64_t number) const { return pushed_[place(number)]; }
  void message_applied(std::int64_t number);

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  std::size_t place(std::int64_t number) const {
    return pushed_.size() - static_cast<std::size_t>(computed_ - number);
  }
  void keep_largest(std::vector<at::Tensor>& gradients,
                    const std::vector<std::vector<ParameterPiece>>& messages);

  const LearningPlan& plan_;
  const UpdateSchedule& schedule_;
  std::size_t number_;
  RealNetwork network_;
  ShardOrder order_;
  Optimizer local_;                                           // optimizer of local steps
  std::vector<std::int64_t> taken_, given_;                   // by message
  std::vector<std::deque<std::vector<at::Tensor>>> waiting_;  // by message
  std::vector<std::vector<at::Tensor>> read_;                 // by message
  std::vector<at::Tensor> velocity_;                          // momentum at the workers
  std::vector<at::Tensor> left_;                              // elements that have not been pushed
  std::deque<Pushed> pushed_;  // computed pushes with unused messages
  std::int64_t computed_ = 0, batch_ = 0;
};

}  // namespace lockstep
