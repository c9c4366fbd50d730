// Shards, gathered units, unsharded and sharded gradients of one FSDP rank, allocated and freed as
// FsdpOrder says (facts 26-60). A State of memory/step_player.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "memory/liveness.hpp"
#include "memory/memory_plan.hpp"
#include "memory/tape.hpp"
#include "strategies/fsdp/order.hpp"

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
  void begin_backward(bool) {}
  void before_recomputation(int layer);
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
    std::string_view name;
    double elements = 0, shard = 0;        // as laid out, padding included
    std::vector<std::int64_t> parameters;  // elements of each
    std::vector<std::string_view> names;   // of each
    double parameter_elements = 0;         // their sum
    bool gathered = false, in_backward = false;
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

  Unit& of(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  bool fsdp1() const { return layout_.options.version == 1; }
  bool needs_gather() const;
  std::vector<Block> like_shard(const Unit& unit, MemoryKind kind, double bytes_per_element);
  void carry_out(FsdpOrder::Actions actions);
  void begin_backward_of(int unit);
  void gather(Unit& unit);
  void use(Unit& unit, bool backward);
  void reshard(Unit& unit);
  void join(Unit& unit);
  void accumulate(Unit& unit);
  void keep(Unit& unit);
  void reduce_fsdp1(Unit& unit);
  void reduce_fsdp2(Unit& unit);
  void keep_shard_gradient(Unit& unit, std::vector<Block> reduced);
  void release_later(Block block);
  void release_reduced(Block input);

  Tape& tape_;
  const TrainingStep& step_;
  const FsdpLayout& layout_;
  const OptimizerMemory& optimizer_;
  const HookPlaces hooks_;
  FsdpOrder order_;
  std::vector<Unit> units_;
  std::vector<int> owner_;                 // by layer: the unit of its parameters, -1 = none
  std::vector<std::vector<int>> running_;  // by layer: the units whose modules it lies in
  std::deque<std::int64_t> limiter_;       // events the host may have to wait for (fact 34)
  std::int64_t event_ = 0;
  Block previous_gather_ = nothing;  // fsdp2, forward (fact 49)
  std::vector<Block> offloaded_;     // fsdp1: reduced gradients that the host has, too
  Block reduce_input_ = nothing;     // fsdp2 (fact 53); fsdp1 on a host
  bool first_micro_batch_ = true, has_state_ = false;
};

}  // namespace lockstep
