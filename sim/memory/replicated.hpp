// The ModelState (layer_player.hpp) of a rank that holds the whole model: a rank of DDP or ZeRO, a
// parameter-server worker, a single GPU. It allocates parameters, gradients, buckets and optimizer
// state at the moments at which PyTorch does; all sizes come from a MemoryPlan.
#pragma once

#include <string_view>
#include <vector>

#include "memory/liveness.hpp"
#include "memory/optimizer_state.hpp"
#include "memory/tape.hpp"

namespace lockstep {

// The model's tensors on one rank. Parameters are numbered in layer order.
// REQUIRES: tape, step, life and plan outlive the state.
class ReplicatedState {
 public:
  ReplicatedState(Tape& tape, const TrainingStep& step, const Liveness& life,
                  const MemoryPlan& plan);

  void construct();
  void begin_forward(bool /*first*/, bool /*last*/) {}  // arguments: micro-batch of the step
  void before_forward(int) {}
  void after_forward(int) {}
  void end_forward() {}
  void begin_backward(bool last_micro_batch, BackwardHalf half);
  void before_backward(int, bool) {}
  void parameter_gradients(int layer);
  void pieces(int layer, PiecesMoment moment);
  void after_backward(int) {}
  void end_backward();
  void optimizer_step();
  void zero_gradients();

 private:
  using Block = Tape::Block;
  bool has_main_gradients() const { return main_gradient_bytes_ > 0; }
  void allocate_buckets();
  void gradient(std::size_t parameter);
  void fill_bucket(double bytes);

  Tape& tape_;
  const TrainingStep& step_;
  const Liveness& life_;
  const MemoryPlan& plan_;
  double parameter_bytes_, gradient_bytes_;  // bytes per element; gradients as backward writes them
  double main_gradient_bytes_;               // per element of main gradients; 0 = none
  std::vector<std::int64_t> elements_;       // by parameter, in layer order
  std::vector<std::int64_t> gradient_elements_;
  std::vector<std::size_t> first_of_;    // by layer: its first parameter
  std::vector<std::uint8_t> trainable_;  // by parameter
  std::vector<std::uint8_t> experts_;    // by parameter: whether it belongs to an expert
  std::vector<std::string_view> names_;  // by parameter
  std::vector<UpdatedTensor> updated_;   // trainable parameters
  std::vector<Block> gradients_;         // by parameter
  // by parameter: gradient of one use of a tied weight, before the other is added
  std::vector<Block> first_part_;
  std::vector<Block> buckets_;
  Block gradient_shard_ = CachingAllocator::nothing;
  Block hook_temporary_ = CachingAllocator::nothing;
  bool buckets_rebuilt_ = false, has_state_ = false, last_micro_batch_ = true;
  bool in_buckets_ = false;  // whether gradients are views of the buckets
  std::size_t next_bucket_ = 0;
  double filled_ = 0;
};

}  // namespace lockstep
