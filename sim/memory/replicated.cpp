// Allocates parameters, gradients, buckets and optimizer state as plain training and DDP do
// (torch/csrc/distributed/c10d/reducer.cpp; facts 2, 3, 13, 14, 20, 21). Gradients live from
// backward to zero_grad(), which runs before the next forward. With main gradients or bucket views,
// gradients are in storages that are never freed.
#include "memory/replicated.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {
constexpr Tape::Block nothing = CachingAllocator::nothing;
}

ReplicatedState::ReplicatedState(Tape& tape, const TrainingStep& step, const Liveness& life,
                                 const MemoryPlan& plan)
    : tape_(tape),
      step_(step),
      life_(life),
      plan_(plan),
      parameter_bytes_(lockstep::parameter_bytes(step.precision)),
      gradient_bytes_(parameter_bytes_),
      main_gradient_bytes_(lockstep::has_main_gradients(step.precision) &&
                                   !plan.replicated.gradients_join_late
                               ? gradient_bytes(step.precision)
                               : 0) {
  for (const Layer& layer : step.layers) {
    first_of_.push_back(elements_.size());
    for (const Parameter& parameter : layer.parameters) {
      elements_.push_back(parameter.count);
      gradient_elements_.push_back(parameter.gradient_elements());
      trainable_.push_back(parameter.trainable);
      experts_.push_back(parameter.expert);
      names_.push_back(parameter.name);
    }
  }
  first_of_.push_back(elements_.size());
  const std::vector<bool>& whole = plan.replicated.updated_tensors;
  // Index in `updated_` of each tensor that TensorUpdate::tensor numbers, which are the trainable
  // tensors that have elements.
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    if (!trainable_[i]) continue;
    const bool left_out = elements_[i] > 0 && !whole.empty() && !whole.at(numbers.size());
    if (elements_[i] > 0) numbers.push_back(updated_.size());
    const double share = left_out      ? 0
                         : experts_[i] ? plan.replicated.updated_share_of_experts
                                       : plan.replicated.updated_share;
    updated_.push_back({share * elements_[i], names_[i]});
  }
  for (const TensorUpdate& other : plan.optimizer.others) {
    updated_[numbers.at(static_cast<std::size_t>(other.tensor))].other = &other;
  }
  gradients_.assign(elements_.size(), nothing);
  first_part_.assign(elements_.size(), nothing);
}

// The tensors of a model and its DDP wrapper before the first step. If DDP rebuilds its buckets
// after the first step, it allocates one bucket for all gradients here.
void ReplicatedState::construct() {
  for (const Layer& layer : step_.layers) {
    for (const Parameter& parameter : layer.parameters) {
      tape_.allocate(MemoryKind::parameters, parameter.bytes(parameter_bytes_), {parameter.name});
    }
  }
  const auto& replicated = plan_.replicated;
  tape_.allocate(MemoryKind::buckets, replicated.hook_state_bytes, {"kept for the next exchange"});
  if (replicated.gradients_join_late) {
    double trained = 0;
    for (std::size_t i = 0; i < elements_.size(); ++i) trained += trainable_[i] ? elements_[i] : 0;
    tape_.allocate(MemoryKind::gradients, trained * gradient_bytes(step_.precision),
                   {"fp32 gradients"});
  }
  const auto& sizes = replicated.bucket_bytes;
  if (sizes.empty() && has_main_gradients()) {
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      if (!trainable_[i]) continue;
      gradients_[i] =
          tape_.allocate(MemoryKind::gradients, elements_[i] * main_gradient_bytes_, {names_[i]});
    }
  }
  if (sizes.empty()) return;
  if (replicated.rebuilds_buckets) {
    buckets_.push_back(tape_.allocate(MemoryKind::buckets,
                                      std::accumulate(sizes.begin(), sizes.end(), 0.0),
                                      {"the first step's bucket"}));
  } else {
    allocate_buckets();
  }
}

void ReplicatedState::allocate_buckets() {
  for (const double bytes : plan_.replicated.bucket_bytes) {
    buckets_.push_back(tape_.allocate(MemoryKind::buckets, bytes,
                                      {"bucket", {}, static_cast<int>(buckets_.size())}));
  }
}

void ReplicatedState::begin_backward(bool last_micro_batch, BackwardHalf /*half*/) {
  last_micro_batch_ = last_micro_batch;
  next_bucket_ = 0;
  filled_ = 0;
}

// Gradients of the layer's parameters. A layer that reads a tied weight allocates its summand of
// the owner's gradient.
void ReplicatedState::parameter_gradients(int layer) {
  if (const int owner = step_.layers[layer].tied_layer; owner >= 0) {
    // The first summand of the owner's gradient lives until the other one is computed.
    const std::size_t i =
        first_of_[owner] + static_cast<std::size_t>(step_.layers[layer].tied_parameter);
    if (trainable_[i]) {
      first_part_[i] =
          tape_.allocate(MemoryKind::gradients, elements_[i] * gradient_bytes_, {names_[i]});
    }
  }
  for (std::size_t i = first_of_[layer]; i < first_of_[layer + 1]; ++i) {
    if (trainable_[i]) gradient(i);
  }
}

// Parameter gradients of a chunked loss. Forward computes the gradient of each piece: the first one
// remains, and the others are added to it. They are put into their buckets when backward reaches
// the layer.
void ReplicatedState::pieces(int layer, PiecesMoment moment) {
  if (moment == PiecesMoment::backward) parameter_gradients(layer);
  if (moment == PiecesMoment::over || moment == PiecesMoment::backward) return;
  const bool first = moment == PiecesMoment::first;
  for (std::size_t i = first_of_[layer]; i < first_of_[layer + 1]; ++i) {
    if (!trainable_[i]) continue;
    const Block fresh =
        tape_.allocate(MemoryKind::gradients, gradient_elements_[i] * gradient_bytes_, {names_[i]});
    const bool stays = first && gradients_[i] == nothing && !in_buckets_ && !has_main_gradients();
    stays ? void(gradients_[i] = fresh) : tape_.free(fresh);
  }
}

// One parameter's gradient: freshly allocated, added to an earlier micro-batch's gradient, or
// copied into its bucket.
void ReplicatedState::gradient(std::size_t parameter) {
  const auto& replicated = plan_.replicated;
  const double bytes = gradient_elements_[parameter] * gradient_bytes_;
  Block fresh = tape_.allocate(MemoryKind::gradients, bytes, {names_[parameter]});
  if (first_part_[parameter] != nothing && is_autocast(step_.precision)) {
    // Autograd adds in place to a tensor that nothing else references: the gradient that the cast
    // of the head's weight returned.
    tape_.free(std::exchange(fresh, std::exchange(first_part_[parameter], nothing)));
  } else if (first_part_[parameter] != nothing) {
    // The head's part is a transposed view, and autograd adds out of place.
    const Block sum = tape_.allocate(MemoryKind::gradients, bytes, {names_[parameter]});
    tape_.free(std::exchange(first_part_[parameter], nothing));
    tape_.free(std::exchange(fresh, sum));
  }
  if (gradients_[parameter] != nothing || in_buckets_ || has_main_gradients()) {
    tape_.free(fresh);  // added to the gradient that exists
  } else {
    gradients_[parameter] = fresh;
  }
  const bool goes = last_micro_batch_ || replicated.gradients_live_in_buckets;
  if (!goes || buckets_.empty()) return;
  if (replicated.gradient_as_bucket_view || has_main_gradients()) {
    // The gradient is copied into its bucket and becomes a view of the bucket (fact 14).
    tape_.free(gradients_[parameter]);
    gradients_[parameter] = nothing;
  }
  fill_bucket(has_main_gradients() ? elements_[parameter] * main_gradient_bytes_ : bytes);
}

// Counts the gradient bytes in buckets. A communication hook (fp16 compression) allocates a
// temporary for each full bucket; it lives until the temporary of the next bucket replaces it.
void ReplicatedState::fill_bucket(double bytes) {
  const auto& replicated = plan_.replicated;
  filled_ += bytes;
  if (replicated.hook_temporary_fraction <= 0) return;
  const auto& sizes = replicated.bucket_bytes;
  while (next_bucket_ < sizes.size() && filled_ >= sizes[next_bucket_]) {
    filled_ -= sizes[next_bucket_];
    tape_.free(hook_temporary_);
    hook_temporary_ = tape_.allocate(MemoryKind::temporaries,
                                     sizes[next_bucket_] * replicated.hook_temporary_fraction,
                                     {"bucket", {}, static_cast<int>(next_bucket_)});
    ++next_bucket_;
  }
}

void ReplicatedState::end_backward() {
  tape_.free(hook_temporary_);
  hook_temporary_ = nothing;
  if (plan_.replicated.gradients_join_late) {
    for (Block& block : gradients_) tape_.free(std::exchange(block, nothing));
  }
  if (gradient_shard_ == nothing && plan_.replicated.gradient_shard_bytes > 0) {
    gradient_shard_ = tape_.allocate(MemoryKind::gradients, plan_.replicated.gradient_shard_bytes,
                                     {"this rank's part"});
  }
  if (last_micro_batch_ && plan_.replicated.gradient_as_bucket_view && !buckets_.empty()) {
    in_buckets_ = true;
  }
}

void ReplicatedState::optimizer_step() {
  tape_.at(MemoryPhase::optimizer);
  if (!has_state_) {
    allocate_optimizer_state(tape_, updated_, plan_.optimizer);
    tape_.allocate(MemoryKind::optimizer_state, plan_.replicated.kept_state_bytes,
                   {"master parameters"});
  }
  has_state_ = true;
  play_update(tape_, updated_, plan_.optimizer);
  tape_.free(tape_.allocate(MemoryKind::temporaries, plan_.replicated.flat_copy_bytes,
                            {"flat copy of the parameters"}));
}

void ReplicatedState::zero_gradients() {
  const auto& replicated = plan_.replicated;
  for (Block& block : gradients_) {
    if (!has_main_gradients()) tape_.free(std::exchange(block, nothing));
  }
  tape_.free(std::exchange(gradient_shard_, nothing));
  in_buckets_ = false;
  if (!buckets_.empty() && replicated.rebuilds_buckets && has_state_ && !buckets_rebuilt_) {
    // DDP rebuilds its buckets before the second forward (fact 3); the bucket of the first step is
    // freed first.
    tape_.free(buckets_);
    allocate_buckets();
    buckets_rebuilt_ = true;
  }
}

}  // namespace lockstep
