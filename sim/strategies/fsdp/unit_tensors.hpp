// The tensors of an FSDP unit: gathered parameters, unsharded and sharded gradients, and what PyTorch
// allocates for moments around its collectives (facts 26-60).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/tape.hpp"
#include "strategies/fsdp/layout.hpp"

namespace lockstep {

struct ShardedUnit {
  using Block = Tape::Block;
  std::string_view name;
  bool expert = false;
  int gather_bytes = 4, reduce_bytes = 4;  // of an element
  double elements = 0, shard = 0;          // as laid out, padding included
  std::vector<std::int64_t> parameters;    // elements of each
  std::vector<std::string_view> names;     // of each
  std::vector<std::uint8_t> trained;       // each
  std::vector<double> stored_bytes;        // of each; 0 = as the layout says
  double gathered_share = 1;               // of the bytes that trained parameters would have
  double trained_share = 1;                // of the elements
  double parameter_elements = 0;           // their sum
  bool gathered = false, in_backward = false;
  Block gather_output = CachingAllocator::nothing;  // fsdp2: before the copy-out
  std::vector<Block> full;                          // gathered parameters
  std::vector<Block> gradients;                     // one per parameter, unsharded
  bool gradients_are_wide = false;                  // in the type in which they are reduced
  bool in_halves = false;                           // backward gives them in a half of its own
  struct Part {  // of the gradient of a tied parameter: it waits for the other one
    int layer = 0, parameter = 0;  // of the owner
    Block gradient = CachingAllocator::nothing;
  };
  std::vector<Part> waiting;
  std::vector<Block> accumulated;  // no_sync: unsharded, kept over micro-batches
  std::vector<Block> shard_gradients;
  // Gradients of layers that work on pieces of the tokens: unsharded until the last piece is over,
  // then reduced.
  std::vector<Block> of_pieces, shard_gradients_of_pieces;
  double elements_of_pieces = 0;
};

class UnitTensors {
 public:
  using Block = Tape::Block;
  UnitTensors(Tape& tape, const FsdpLayout& layout);

  // Tensors as large as the unit's shard.
  std::vector<Block> like_shard(const ShardedUnit& unit, MemoryKind kind, double bytes_per_element,
                                int tensors = 1);
  void gather(ShardedUnit& unit, bool backward);
  void use(ShardedUnit& unit, bool backward);
  void reshard(ShardedUnit& unit);
  void join(ShardedUnit& unit);
  void keep(ShardedUnit& unit, bool first_micro_batch);
  void reduce(ShardedUnit& unit, bool pieces = false);  // what pieces have left: fsdp2
  void end_forward();
  void end_backward();
  // The latest release on another stream, which the rate limiter waits for (fact 34).
  std::int64_t latest_event() const { return event_; }

 private:
  static constexpr Block nothing = CachingAllocator::nothing;
  void reduce_fsdp1(ShardedUnit& unit);
  void reduce_fsdp2(ShardedUnit& unit, bool pieces);
  void keep_shard_gradient(ShardedUnit& unit, std::vector<Block> reduced);
  void release_later(Block block);
  void release_reduced(Block input);

  Tape& tape_;
  const FsdpLayout& layout_;
  const bool fsdp1_, moves_;  // parameters to where a unit computes, even in the shards' precision
  std::int64_t event_ = 0;
  Block previous_gather_ = nothing;  // fsdp2, forward (fact 49)
  std::vector<Block> offloaded_;     // fsdp1: reduced gradients that the host has, too
  Block reduce_input_ = nothing;     // fsdp2 (fact 53); fsdp1 on a host
  Block experts_input_ = nothing;    // fsdp2, beside that of the module around the experts
};

}  // namespace lockstep
