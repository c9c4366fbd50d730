// A worker of the replay: its network, the batches that it takes, and the gradients that it pushes.
// Includes LibTorch; private to the room.
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

// torch.nn.utils.clip_grad_norm_.
void clip(const std::vector<at::Tensor>& gradients, double largest);

// A worker's gradients as it pushes them.
struct Pushed {
  std::vector<at::Tensor> gradients;  // by parameter
  // the parameters behind the gradients, where the weighting needs them
  std::vector<at::Tensor> read;
  int open = 0;  // messages that no update has taken yet
};

class ReplayWorker {
 public:
  // `order`: of the images that it takes.
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
  // Numbers of a message's next push, from 0, and of its next version to read.
  std::int64_t next_push(int message) { return taken_[at(message)]++; }
  std::int64_t pushes_taken(int message) const { return taken_[at(message)]; }
  std::int64_t next_read(int message) { return given_[at(message)]++; }
  // Versions that the worker reads before it has computed on the versions of its previous push.
  std::deque<std::vector<at::Tensor>>& waiting(int message) { return waiting_[at(message)]; }

  // The pieces of a message as it read them last; `differences` alone.
  std::vector<at::Tensor>& read(int message) { return read_[at(message)]; }

  // Adds the gradients of the next batch to the network's gradients; returns the loss.
  double gradients(const ImageBatches& batches, const Images& images);
  void clip_gradients();
  void drop_gradients() { network_.drop_gradients(); }
  void push(const std::vector<std::vector<ParameterPiece>>& messages);
  void count_computed() { ++computed_; }

  // A push with messages that are not applied yet.
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
  Optimizer local_;                                           // of local SGD
  std::vector<std::int64_t> taken_, given_;                   // by message
  std::vector<std::deque<std::vector<at::Tensor>>> waiting_;  // by message
  std::vector<std::vector<at::Tensor>> read_;                 // by message
  std::vector<at::Tensor> velocity_;                          // momentum at the workers
  std::vector<at::Tensor> left_;                              // elements that were not pushed
  std::deque<Pushed> pushed_;                                 // the latest ones computed
  std::int64_t computed_ = 0, batch_ = 0;
};

}  // namespace lockstep
