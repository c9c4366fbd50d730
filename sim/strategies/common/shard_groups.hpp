// FSDP's and ZeRO's process groups: ranks that share one copy of the sharded state, and ranks that
// hold the same shard. Used by strategies with shards.
#pragma once

#include <vector>

#include "strategies/common/mesh_groups.hpp"

namespace lockstep {

struct TrainingContext;

struct ShardGroups {
  int ranks = 1;     // that share one copy
  int replicas = 1;  // copies
  CommGroup shard, replica;
  bool sharded() const { return ranks > 1; }
  bool hybrid() const { return ranks > 1 && replicas > 1; }
};

// Groups of `ranks` consecutive ranks, among ranks that hold the same parameters. Throws
// ConfigError about `field` if the groups do not fit the job or the nodes.
ShardGroups shard_groups(const Job& job, int ranks, const char* field);
// The groups for experts: all ranks that hold the same experts.
ShardGroups expert_shard_groups(const Job& job);

// The stage's communicators over these groups. One serves as both if there are not both kinds of
// groups.
Communicator& shards_of(TrainingContext& context, const ShardGroups& groups);
Communicator& expert_shards_of(TrainingContext& context);
Communicator& replicas_of(TrainingContext& context, const ShardGroups& groups);

// Hybrid: the groups that share one copy, and the groups that hold the same shard. Otherwise empty.
std::vector<RankGroups> axes_of(const Mesh& mesh, const ShardGroups& groups);

}  // namespace lockstep
