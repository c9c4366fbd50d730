// The layout of an FSDP job: the groups of ranks that share a copy, the units (units.hpp), and the
// sizes of the units. Time (plan.hpp) and memory (sharded_state.hpp) use the same layout.
#pragma once

#include <vector>

#include "strategies/common/shard_groups.hpp"
#include "strategies/fsdp/units.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

struct FsdpLayout {
  // The options after PyTorch's own rules (fact 28): no_shard if a shard group has one rank; no
  // hybrid mode with one replica. On CPUs, `offload` is removed.
  FsdpOptions options;
  ShardGroups groups;         // for all parameters but experts
  ShardGroups expert_groups;  // for experts
  // ZeRO++: a shard group is the ranks of a node, and a replica group is the ranks at the same
  // place of all nodes. Not hybrid on one node or without ZeRO++.
  ShardGroups node_groups;
  // Bytes per element of shards, all-gathers and reductions. For a wide unit (FsdpUnit::wide),
  // gather_bytes_of() and reduce_bytes_of() return 4.
  int shard_bytes = 4, gather_bytes = 4, reduce_bytes = 4;
  std::vector<FsdpUnit> units;
  std::vector<UnitLayout> layouts;  // by unit
  // True in a pipeline: parameters are gathered once a step, and gradients are reduced after all
  // micro-batches (PyTorch, torch/distributed/pipelining/stage.py: backward_maybe_with_nosync;
  // facts H45, H46).
  bool once_a_step = false;

  bool sharded() const { return groups.sharded(); }
  const ShardGroups& groups_of(const FsdpUnit& unit) const {
    return unit.expert ? expert_groups : groups;
  }
  // Whether parameters remain gathered between forward and backward.
  bool keeps_parameters() const {
    return options.sharding == Sharding::shard_grad_op ||
           options.sharding == Sharding::hybrid_shard_zero2;
  }
  // Whether each node holds a copy of the parameters, from which backward gathers (ZeRO++).
  bool secondary_shards() const { return options.zeropp.secondary_shards && node_groups.hybrid(); }
  int gather_bytes_of(const FsdpUnit& unit) const { return unit.wide ? 4 : gather_bytes; }
  int reduce_bytes_of(const FsdpUnit& unit) const { return unit.wide ? 4 : reduce_bytes; }
  // Whether a unit's parameters are gathered as int8. ZeRO++ does not change how experts are
  // gathered.
  bool gathers_quantized(bool expert, bool backward) const {
    const bool quantized = options.zeropp.quantized_weights && !(backward && secondary_shards());
    return quantized && sharded() && !expert;
  }
  // Whether the host updates some of the parameters while the ranks compute on accelerators.
  bool updates_on_host(const Job& job) const {
    return options.offloaded_share() > 0 && job.machine.device.architecture != Architecture::cpu;
  }
  // The numbers of elements and tensors that the optimizer of one rank updates.
  double optimizer_elements() const;
  int optimizer_tensors() const;
};

// Number of ranks of a node that hold different shards, if the job has several such nodes;
// otherwise 0.
int shards_of_node(const Job& job);

// Throws ConfigError if the job or its nodes cannot be divided into groups of shard_group ranks, or
// with ZeRO++ into groups of the ranks of a node.
FsdpLayout fsdp_layout(const Job& job, const FsdpOptions& options);

}  // namespace lockstep
