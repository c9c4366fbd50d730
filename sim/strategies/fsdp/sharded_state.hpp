// The model's memory on one FSDP rank: shards, gathered units, unsharded and sharded gradients.
// They are allocated and freed in the order of FsdpOrder (facts 26-60). The class is a ModelState
// (memory/layer_player.hpp): the step player calls its functions in the order of a step. It does
// not handle activations.
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
  // Executes the actions of a hook on the allocator.
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
  std::vector<int> owner_;  // by layer: the unit that owns its parameters; -1 = none
  // By layer: the units whose modules contain it, outermost first.
  std::vector<std::vector<int>> running_;
  std::deque<std::int64_t> limiter_;  // events in the rate limiter's queue (fact 34)
  bool has_state_ = false;
  BackwardHalf half_ = BackwardHalf::both;  // the half of backward that runs
  // In an action that computes only weights' gradients: the latest gradient, which a variable of
  // the host's loop keeps alive.
  Tape::Block latest_gradient_ = CachingAllocator::nothing;
};

}  // namespace lockstep
