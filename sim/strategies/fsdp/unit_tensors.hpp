// The tensors of an FSDP unit on the allocator: gathered parameters, unsharded and sharded
// gradients, and the buffers that PyTorch allocates around collectives (facts 26-60). While the
// memory of a step is played, ShardedState calls UnitTensors for each action of FsdpOrder.
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

// A unit with its allocated tensors.
struct ShardedUnit {
  using Block = Tape::Block;
  std::string_view name;
  bool expert = false;
  int gather_bytes = 4, reduce_bytes = 4;  // of one element
  double elements = 0, shard = 0;          // on all ranks together, on one rank; including padding
  // By parameter: its number of elements, its name, whether it is trained, and the bytes in which a
  // frozen parameter is stored (0 = by the layout's element size).
  std::vector<std::int64_t> parameters;
  std::vector<std::string_view> names;
  std::vector<std::uint8_t> trained;
  std::vector<double> stored_bytes;
  double gathered_share = 1;  // bytes of an all-gather, divided by its bytes if nothing were frozen
  double trained_share = 1;   // share of the elements that are trained
  double parameter_elements = 0;  // of all parameters, excluding padding
  bool gathered = false, in_backward = false;
  // FSDP2: output of the all-gather, before the copy-out.
  Block gather_output = CachingAllocator::nothing;
  std::vector<Block> full;          // gathered parameters
  std::vector<Block> gradients;     // unsharded, one for each parameter
  bool gradients_are_wide = false;  // whether gradients have the element type of the reduction
  bool in_halves = false;  // whether an action of its own computes weights' gradients (pipelines)
  // The gradient of a tied parameter from another layer. It is added when the owner's gradient
  // exists.
  struct Part {
    int layer = 0, parameter = 0;  // of the parameter's owner
    Block gradient = CachingAllocator::nothing;
  };
  std::vector<Part> waiting;
  // no_sync: unsharded gradients that are kept from micro-batch to micro-batch.
  std::vector<Block> accumulated;
  std::vector<Block> shard_gradients;  // after the reduction
  // Gradients of layers that process the tokens in pieces. They are unsharded until the last piece
  // is done, and then reduced.
  std::vector<Block> of_pieces, shard_gradients_of_pieces;
  double elements_of_pieces = 0;
};

// Allocates and frees the tensors of units. The layout must outlive it.
class UnitTensors {
 public:
  using Block = Tape::Block;
  UnitTensors(Tape& tape, const FsdpLayout& layout);

  // Allocates tensors that together are as large as the unit's shard, with this number of bytes per
  // element. If `kind` is not parameters, FSDP2 leaves out frozen parameters. Each tensor is
  // divided into `tensors` equal ones, for example Adam's two moments.
  std::vector<Block> like_shard(const ShardedUnit& unit, MemoryKind kind, double bytes_per_element,
                                int tensors = 1);
  // Allocates the output of the all-gather, and the copies of the shard that the all-gather needs.
  void gather(ShardedUnit& unit, bool backward);
  // FSDP2: allocates the parameters into which the output is copied. FSDP1 uses the output itself.
  void use(ShardedUnit& unit, bool backward);
  // Frees the gathered parameters.
  void reshard(ShardedUnit& unit);
  // FSDP1: replaces the parameters' gradients by one flat gradient.
  void join(ShardedUnit& unit);
  // no_sync: stores the unsharded gradients for the next micro-batch.
  void keep(ShardedUnit& unit, bool first_micro_batch);
  // Reduces the unsharded gradients to a shard. If `pieces` is true (FSDP2), reduces only the
  // gradients of layers that process the tokens in pieces.
  void reduce(ShardedUnit& unit, bool pieces = false);
  // Frees the output of forward's last all-gather.
  void end_forward();
  // Frees the buffers of reductions, and completes all deferred releases.
  void end_backward();
  // The latest release on another stream, for which the rate limiter waits (fact 34).
  std::int64_t latest_event() const { return event_; }

 private:
  static constexpr Block nothing = CachingAllocator::nothing;
  void reduce_fsdp1(ShardedUnit& unit);
  void reduce_fsdp2(ShardedUnit& unit, bool pieces);
  // The reduced gradient becomes the unit's shard gradient, is added to it, or is copied to the
  // host.
  void keep_shard_gradient(ShardedUnit& unit, std::vector<Block> reduced);
  // record_stream(): the block becomes free when the other stream has passed this place (fact 41).
  void release_later(Block block);
  void release_reduced(Block input);

  Tape& tape_;
  const FsdpLayout& layout_;
  // `moves_`: parameters are gathered or copied, so that a unit computes with other memory than the
  // shard, even if both have the same precision.
  const bool fsdp1_, moves_;
  std::int64_t event_ = 0;           // number of the latest deferred release
  Block previous_gather_ = nothing;  // FSDP2, forward: output of the previous unit (fact 49)
  std::vector<Block> offloaded_;     // FSDP1: reduced gradients that are being copied to the host
  Block reduce_input_ = nothing;  // input of the latest reduction (FSDP2: fact 53; FSDP1 on a host)
  // FSDP2: input of the experts, besides the input of the module around them.
  Block experts_input_ = nothing;
};

}  // namespace lockstep
