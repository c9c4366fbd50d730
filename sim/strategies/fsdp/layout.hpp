// Who shards with whom, and the units that are gathered and reduced together.
#pragma once

#include <vector>

#include "strategies/common/shard_groups.hpp"
#include "strategies/fsdp/units.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The options after PyTorch's own rules (fact 28), the process groups and the units' sizes.
struct FsdpLayout {
  FsdpOptions options;  // sharding resolved: no_shard on one rank, no hybrid with one replica
  ShardGroups groups;   // of the model
  ShardGroups expert_groups;
  // ZeRO++: the ranks of a node, and those at the same place in all nodes; not hybrid on one node.
  ShardGroups node_groups;
  int shard_bytes = 4, gather_bytes = 4, reduce_bytes = 4;  // per element; of wide units 4
  std::vector<FsdpUnit> units;
  std::vector<UnitLayout> layouts;  // of each unit
  // In a pipeline: parameters are gathered once a step, and gradients reduced once all micro-batches are over
  // (PyTorch, torch/distributed/pipelining/stage.py: backward_maybe_with_nosync; facts H45, H46).
  bool once_a_step = false;

  bool sharded() const { return groups.sharded(); }
  const ShardGroups& groups_of(const FsdpUnit& unit) const {
    return unit.expert ? expert_groups : groups;
  }
  // Parameters stay gathered between forward and backward.
  bool keeps_parameters() const {
    return options.sharding == Sharding::shard_grad_op ||
           options.sharding == Sharding::hybrid_shard_zero2;
  }
  bool secondary_shards() const { return options.zeropp.secondary_shards && node_groups.hybrid(); }
  int gather_bytes_of(const FsdpUnit& unit) const { return unit.wide ? 4 : gather_bytes; }
  int reduce_bytes_of(const FsdpUnit& unit) const { return unit.wide ? 4 : reduce_bytes; }
  // Whether a unit's parameters are gathered as int8. Experts are gathered as without ZeRO++.
  bool gathers_quantized(bool expert, bool backward) const {
    const bool quantized = options.zeropp.quantized_weights && !(backward && secondary_shards());
    return quantized && sharded() && !expert;
  }
  bool updates_on_host(const Job& job) const {
    return options.offloaded_share() > 0 && job.machine.device.architecture != Architecture::cpu;
  }
  // What the optimizer of one rank sees.
  double optimizer_elements() const;
  int optimizer_tensors() const;
};

// Ranks of a node that hold different parts, where there are several such nodes; else 0.
int shards_of_node(const Job& job);

// Throws ConfigError when shard_group does not fit the ranks or the nodes.
FsdpLayout fsdp_layout(const Job& job, const FsdpOptions& options);

}  // namespace lockstep
