// The tensors of an FSDP unit on the allocator: gathered parameters, unsharded and sharded
// gradients, and the buffers that PyTorch allocates around collectives (facts 26-60). ShardedState
// calls UnitTensors for each action of FsdpOrder while the memory of a step is played.
//
//   shard -> gather() -> parameters -> use() -> compute -> gradients -> reduce() -> shard gradients
//                                                reshard() frees the gathered parameters
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/tape.hpp"
#include "strategies/fsdp/layout.hpp"

namespace lockstep {

// A unit with its live tensors.
struct ShardedUnit {
  using Block = Tape::Block;
  std::string_view name;
  bool expert = false;
  int gather_bytes = 4, reduce_bytes = 4;  // of an element
  double elements = 0, shard = 0;          // of all ranks, of one rank; padding included
  // By parameter: elements, name, whether it is trained, and bytes in which a frozen one is stored
  // (0 = by the layout's element size).
  std::vector<std::int64_t> parameters;
  std::vector<std::string_view> names;
  std::vector<std::uint8_t> trained;
  std::vector<double> stored_bytes;
  double gathered_share = 1;      // bytes of an all-gather over its bytes if nothing were frozen
  double trained_share = 1;       // of the elements
  double parameter_elements = 0;  // of all parameters, without padding
  bool gathered = false, in_backward = false;
  Block gather_output = CachingAllocator::nothing;  // FSDP2: before the copy-out
  std::vector<Block> full;                          // gathered parameters
  std::vector<Block> gradients;                     // unsharded, one per parameter
  bool gradients_are_wide = false;                  // gradients are in the type of the reduction
  bool in_halves = false;  // gradients of weights come in an action of their own (pipelines)
  // The gradient of a tied parameter from another layer. It waits for the owner's gradient.
  struct Part {
    int layer = 0, parameter = 0;  // of the owner
    Block gradient = CachingAllocator::nothing;
  };
  std::vector<Part> waiting;
  std::vector<Block> accumulated;      // no_sync: unsharded gradients, kept over micro-batches
  std::vector<Block> shard_gradients;  // after the reduction
  // Gradients of layers that work on pieces of the tokens: unsharded until the last piece is over,
  // and then reduced.
  std::vector<Block> of_pieces, shard_gradients_of_pieces;
  double elements_of_pieces = 0;
};

// Allocates and frees the tensors of units. The layout must outlive it.
class UnitTensors {
 public:
  using Block = Tape::Block;
  UnitTensors(Tape& tape, const FsdpLayout& layout);

  // Allocates tensors as large as the unit's shard, with this number of bytes per element.
  std::vector<Block> like_shard(const ShardedUnit& unit, MemoryKind kind, double bytes_per_element);
  // Allocates the output of the all-gather, and copies of the shard that it needs.
  void gather(ShardedUnit& unit, bool backward);
  // FSDP2: allocates the parameters into which the output is copied. FSDP1 uses the output itself.
  void use(ShardedUnit& unit, bool backward);
  // Frees the gathered parameters.
  void reshard(ShardedUnit& unit);
  // FSDP1: replaces the parameters' gradients by one flat gradient.
  void join(ShardedUnit& unit);
  // no_sync: keeps the unsharded gradients for the next micro-batch.
  void keep(ShardedUnit& unit, bool first_micro_batch);
  // Reduces the unsharded gradients to a shard; `pieces`: the gradients of layers that work on
  // pieces of the tokens (FSDP2).
  void reduce(ShardedUnit& unit, bool pieces = false);
  // Frees the last all-gather's output of forward.
  void end_forward();
  // Frees the buffers of reductions, and completes all deferred releases.
  void end_backward();
  // The latest release on another stream, which the rate limiter waits for (fact 34).
  std::int64_t latest_event() const { return event_; }

 private:
  static constexpr Block nothing = CachingAllocator::nothing;
  void reduce_fsdp1(ShardedUnit& unit);
  void reduce_fsdp2(ShardedUnit& unit, bool pieces);
  // The reduced gradient becomes the unit's shard gradient, is added to it, or goes to the host.
  void keep_shard_gradient(ShardedUnit& unit, std::vector<Block> reduced);
  // record_stream(): the block is free once the other stream has passed this point (fact 41).
  void release_later(Block block);
  void release_reduced(Block input);

  Tape& tape_;
  const FsdpLayout& layout_;
  // `moves_`: parameters are gathered or copied, so that a unit computes with other memory than the
  // shard even if both have the same precision.
  const bool fsdp1_, moves_;
  std::int64_t event_ = 0;           // number of the latest deferred release
  Block previous_gather_ = nothing;  // FSDP2, forward: output of the unit before (fact 49)
  std::vector<Block> offloaded_;     // FSDP1: reduced gradients that are copied to the host
  Block reduce_input_ = nothing;     // FSDP2: of the latest reduction (fact 53); FSDP1 on a host
  Block experts_input_ = nothing;    // FSDP2: of the experts, beside that of the module around them
};

}  // namespace lockstep
