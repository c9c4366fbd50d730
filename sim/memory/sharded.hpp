// Shards, gathered units, unsharded and sharded gradients of one FSDP rank, in the order in which
// FSDP1 or FSDP2 allocates and frees them (facts 26-60). Played by step_memory.cpp; ReplicatedState
// has the same functions.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "memory/liveness.hpp"
#include "memory/memory_plan.hpp"
#include "memory/tape.hpp"

namespace lockstep {

class ShardedState {
 public:
  ShardedState(Tape& tape, const TrainingStep& step, const Liveness& life, const MemoryPlan& plan);

  void construct();
  void begin_forward(bool last_micro_batch);
  void before_forward(int layer);
  void after_forward(int layer);
  void end_forward();
  void begin_backward(bool) {}
  void before_backward(int layer);
  void parameter_gradients(int layer);
  void after_backward(int layer);
  void end_backward();
  void optimizer_step();
  void zero_gradients();

 private:
  using Block = Tape::Block;
  static constexpr Block nothing = CachingAllocator::nothing;
  struct Unit {
    const ShardedUnit* plan = nullptr;
    int first_layer = 0, last_layer = 0;
    std::vector<std::int64_t> parameters;  // elements of each
    double parameter_elements = 0;         // their sum
    bool sharded = false;                  // false: NO_SHARD, the shard is the whole unit
    bool gathered = false, in_backward = false;
    bool prefetched = false;        // asked for before its turn
    Block gather_output = nothing;  // fsdp2: collective output before the copy-out
    std::vector<Block> full;        // gathered parameters
    std::vector<Block> gradients;   // one per parameter, unsharded
    struct Part {  // of the gradient of a tied parameter: it waits for the other one
      int layer = 0, parameter = 0;  // of the owner
      Block gradient = nothing;
    };
    std::vector<Part> waiting;
    std::vector<Block> accumulated;  // no_sync: unsharded, kept over micro-batches
    std::vector<Block> shard_gradients;
  };

  bool fsdp1() const { return plan_.runtime == ShardedRuntime::fsdp1; }
  bool needs_gather(const Unit& unit) const;
  std::vector<Block> like_shard(const Unit& unit, MemoryKind kind, double bytes_per_element);
  void gather(Unit& unit, bool backward);
  void prefetch(const Unit& unit);
  void wait_for(Unit& unit, bool backward);
  void reshard(Unit& unit);
  void reduce(Unit& unit);
  void reduce_fsdp1(Unit& unit);
  void reduce_fsdp2(Unit& unit);
  void keep_shard_gradient(Unit& unit, std::vector<Block> reduced);
  void release_later(Block block);
  void release_reduced(Block input);

  Tape& tape_;
  const TrainingStep& step_;
  const Liveness& life_;
  const ShardedPlan& plan_;
  const OptimizerMemory& optimizer_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;          // by layer, -1 = none
  std::vector<int> backward_order_;   // units, the one backward reaches first in front
  std::deque<std::int64_t> limiter_;  // events the host may have to wait for (fact 34)
  std::int64_t event_ = 0;
  Unit* late_ = nullptr;             // forward_prefetch: its gradients are to be reduced
  Block previous_gather_ = nothing;  // fsdp2, forward (fact 49)
  std::vector<Block> offloaded_;     // fsdp1: reduced gradients that the host has, too
  Block reduce_input_ = nothing;     // fsdp2 (fact 53); fsdp1 on a host
  bool sync_ = true, has_state_ = false;
};

}  // namespace lockstep
