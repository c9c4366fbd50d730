// Implements a worker of the replay: gradients of its batches, clipping as in PyTorch, and pushes
// as the schedule prescribes them (momentum at the worker, halves, compression with error
// feedback).
#include "convergence/replay_worker.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "torch/largest.hpp"

namespace lockstep {

at::Tensor piece_of(const at::Tensor& whole, const ParameterPiece& piece) {
  if (piece.count == whole.numel()) return whole;
  return whole.view({-1}).slice(0, piece.first, piece.first + piece.count);
}

void clip(const std::vector<at::Tensor>& gradients, double largest) {
  double squares = 0;
  for (const at::Tensor& gradient : gradients) {
    const double norm = gradient.norm().item<double>();
    squares += norm * norm;
  }
  const double factor = largest / (std::sqrt(squares) + 1e-6);
  if (factor >= 1) return;
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
}

double ReplayWorker::gradients(const ImageBatches& batches, const Images& images) {
  const std::vector<std::int64_t> indices = order_.indices(batch_++);
  if (plan_.accumulation == 1) {
    at::Tensor loss = network_.forward(batches.make(images, indices));
    loss.backward();
    return loss.item<double>();
  }
  double sum = 0;
  const std::int64_t samples = network_.step().samples;
  for (int micro = 0; micro < plan_.accumulation; ++micro) {
    const auto first = indices.begin() + micro * samples;
    at::Tensor loss = network_.forward(batches.make(images, {first, first + samples}));
    loss.div(plan_.accumulation).backward();
    sum += loss.item<double>();
  }
  return sum / plan_.accumulation;
}

void ReplayWorker::clip_gradients() {
  std::vector<at::Tensor> all;
  for (const NetworkParameter& parameter : network_.parameters()) {
    if (parameter.tensor.grad().defined()) all.push_back(parameter.tensor.grad());
  }
  const at::NoGradGuard no_gradients;
  clip(all, plan_.gradient_clipping);
}

// Makes the worker's push of the network's gradients: applies momentum at the worker, then
// compression.
void ReplayWorker::push(const std::vector<std::vector<ParameterPiece>>& messages) {
  const at::NoGradGuard no_gradients;
  Pushed& made = pushed_.emplace_back();
  made.open = static_cast<int>(messages.size());
  const bool momentum = plan_.momentum_at == MomentumPlace::worker && plan_.optimizer.momentum > 0;
  for (std::size_t i = 0; i < network_.parameters().size(); ++i) {
    const at::Tensor& parameter = network_.parameters()[i].tensor;
    at::Tensor gradient = parameter.grad();
    if (momentum && gradient.defined()) {
      if (velocity_.size() <= i) velocity_.resize(i + 1);
      if (!velocity_[i].defined()) velocity_[i] = at::zeros_like(gradient);
      // A new tensor, because an earlier push may still refer to the old one.
      gradient = velocity_[i] = velocity_[i].mul(plan_.optimizer.momentum).add_(gradient);
    }
    if (schedule_.pushed_as == PushedAs::halves && gradient.defined()) {
      gradient = gradient.to(at::kHalf).to(at::kFloat);
    }
    made.gradients.push_back(gradient);
    if (compensates(schedule_.weighting)) made.read.push_back(parameter.detach().clone());
  }
  if (schedule_.pushed_as == PushedAs::largest) keep_largest(made.gradients, messages);
}

void ReplayWorker::keep_largest(std::vector<at::Tensor>& gradients,
                                const std::vector<std::vector<ParameterPiece>>& messages) {
  left_.resize(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    left_[i] = left_[i].defined() ? left_[i].add_(gradients[i]) : gradients[i].clone();
    gradients[i] = at::zeros_like(gradients[i]);
  }
  for (const auto& message : messages) {
    for (const ParameterPiece& piece : message) {
      at::Tensor& gradient = gradients[at(piece.parameter)];
      if (!gradient.defined()) continue;
      at::Tensor kept = piece_of(left_[at(piece.parameter)], piece).view({-1});
      const at::Tensor places = largest_places(kept, schedule_.largest_share);
      piece_of(gradient, piece).view({-1}).index_copy_(0, places, kept.index_select(0, places));
      kept.index_fill_(0, places, 0);
    }
  }
}

void ReplayWorker::message_applied(std::int64_t number) {
  --pushed_[place(number)].open;
  while (!pushed_.empty() && pushed_.front().open == 0) pushed_.pop_front();
}

}  // namespace lockstep
