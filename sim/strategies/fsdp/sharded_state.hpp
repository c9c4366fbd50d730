// Shards, gathered units, unsharded and sharded gradients of one FSDP rank, allocated and freed as
// FsdpOrder says (facts 26-60). A ModelState of memory/step_player.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "memory/liveness.hpp"
#include "memory/memory_plan.hpp"
#include "memory/tape.hpp"
#include "strategies/fsdp/order.hpp"
#include "strategies/fsdp/unit_tensors.hpp"

namespace lockstep {

class ShardedState {
 public:
  ShardedState(Tape& tape, const TrainingStep& step, const Liveness& life, const FsdpLayout& layout,
               const OptimizerMemory& optimizer);

  void construct();
  void begin_forward(bool first_micro_batch, bool last_micro_batch);
  void before_forward(int layer);
  void after_forward(int layer);
  void end_forward();
  void begin_backward(bool, BackwardHalf half) { half_ = half; }
  void before_backward(int layer, bool recomputes);
  void parameter_gradients(int layer);
  void pieces(int layer, PiecesMoment moment);
  void after_backward(int layer);
  void end_backward();
  void optimizer_step();
  void zero_gradients();

 private:
  void construct_shards();
  void make_flat_tensors();
  void carry_out(FsdpOrder::Actions actions);
  void begin_backward_of(int unit);

  Tape& tape_;
  const TrainingStep& step_;
  const FsdpLayout& layout_;
  const OptimizerMemory& optimizer_;
  const HookPlaces hooks_;
  FsdpOrder order_;
  std::vector<ShardedUnit> units_;
  UnitTensors tensors_;
  std::vector<int> owner_;                 // by layer: the unit of its parameters, -1 = none
  std::vector<std::vector<int>> running_;  // by layer: the units whose modules it lies in
  std::deque<std::int64_t> limiter_;       // events the host may have to wait for (fact 34)
  bool first_micro_batch_ = true, has_state_ = false;
  BackwardHalf half_ = BackwardHalf::both;
  Tape::Block latest_gradient_ =
      CachingAllocator::nothing;  // of weights alone: the host's variable has it
};

}  // namespace lockstep
