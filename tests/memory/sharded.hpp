// Helpers for the memory of one FSDP rank: a unit per block, and a root unit with all other layers.
// Used by the tests of this room.
#pragma once

#include "memory/step_player.hpp"
#include "strategies/fsdp/sharded_state.hpp"

namespace lockstep {

struct Sharded {
  FsdpLayout layout;
  OptimizerMemory optimizer;
  int micro_batches = 1;
  double communication_bytes = 0;
};

inline Sharded sharded(const TrainingStep& step, int version, int ranks = 4, bool keep = false) {
  Sharded plan;
  FsdpLayout& layout = plan.layout;
  layout.options.version = version;
  layout.options.sharding = ranks == 1 ? Sharding::no_shard
                            : keep     ? Sharding::shard_grad_op
                                       : Sharding::full_shard;
  layout.groups.ranks = ranks;
  layout.units = make_units(step, {});
  for (const FsdpUnit& unit : layout.units) layout.layouts.push_back(flat_layout(unit, ranks));
  return plan;
}

inline StepMemory sharded_memory(const TrainingStep& step, const Sharded& plan,
                                 const Device& device) {
  return play_steps<ShardedState>(step, device, plan.micro_batches, plan.communication_bytes,
                                  MemoryQuery{}, plan.layout, plan.optimizer);
}

}  // namespace lockstep
