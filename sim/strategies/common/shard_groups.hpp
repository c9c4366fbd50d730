// Process groups of FSDP and ZeRO: ranks that share one copy of the sharded state (a shard group),
// and ranks that hold the same shard (a replica group). Used by strategies with shards to price and
// to issue collectives.
//
// Example: 8 ranks, shard groups of 4, 2 replicas.
//   shard groups     {0 1 2 3} {4 5 6 7}
//   replica groups   {0 4} {1 5} {2 6} {3 7}
#pragma once

#include <vector>

#include "strategies/common/mesh_groups.hpp"

namespace lockstep {

struct TrainingContext;

struct ShardGroups {
  int ranks = 1;             // that share one copy
  int replicas = 1;          // number of copies
  CommGroup shard, replica;  // placement of both kinds of groups, for prices
  bool sharded() const { return ranks > 1; }
  bool hybrid() const { return ranks > 1 && replicas > 1; }
};

// Groups of `ranks` consecutive ranks, among ranks that hold the same parameters. Throws
// ConfigError about `field` if the groups do not fit the job or the nodes.
ShardGroups shard_groups(const Job& job, int ranks, const char* field);
// The groups for experts: all ranks that hold the same experts.
ShardGroups expert_shard_groups(const Job& job);

// The stage's communicators over these groups. Without hybrid groups one communicator of all ranks
// serves as both.
Communicator& shards_of(TrainingContext& context, const ShardGroups& groups);
Communicator& expert_shards_of(TrainingContext& context);
Communicator& replicas_of(TrainingContext& context, const ShardGroups& groups);

// Hybrid: the group of each rank, for shard groups and for replica groups. Otherwise empty.
std::vector<RankGroups> axes_of(const Mesh& mesh, const ShardGroups& groups);

}  // namespace lockstep
