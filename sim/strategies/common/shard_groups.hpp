// Ranks that share one copy of what is sharded, and ranks that hold the same share: FSDP's and ZeRO's
// process groups.
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

// Groups of `ranks` consecutive ranks of those that hold the same parameters. Throws ConfigError about
// `field` when they do not fit the job or the nodes.
ShardGroups shard_groups(const Job& job, int ranks, const char* field);
// Of experts: all ranks that hold the same ones.
ShardGroups expert_shard_groups(const Job& job);

// The communicators of a stage over them. One serves as both where there are no groups of both kinds.
Communicator& shards_of(TrainingContext& context, const ShardGroups& groups);
Communicator& expert_shards_of(TrainingContext& context);
Communicator& replicas_of(TrainingContext& context, const ShardGroups& groups);

// Hybrid: the groups that share one copy, and the groups that hold the same share. Else none.
std::vector<RankGroups> axes_of(const Mesh& mesh, const ShardGroups& groups);

}  // namespace lockstep
