// Process groups of FSDP and ZeRO: a shard group is the ranks that share one copy of the sharded
// state, and a replica group is the ranks that hold the same shard. Strategies with shards use them
// for the costs and the communicators of collectives.
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
  int ranks = 1;             // number of ranks that share one copy
  int replicas = 1;          // number of copies
  CommGroup shard, replica;  // placement of one group of each kind, for costs
  bool sharded() const { return ranks > 1; }
  bool hybrid() const { return ranks > 1 && replicas > 1; }
};

// Groups of `ranks` consecutive ranks, among the ranks that hold the same parameters. Throws
// ConfigError about `field` if the job or its nodes cannot be divided into such groups.
ShardGroups shard_groups(const Job& job, int ranks, const char* field);
// The groups of experts: all ranks that hold the same experts.
ShardGroups expert_shard_groups(const Job& job);

// The stage's communicators over these groups. If the groups are not hybrid, one communicator of
// all ranks that hold the same parameters serves as both.
Communicator& shards_of(TrainingContext& context, const ShardGroups& groups);
Communicator& expert_shards_of(TrainingContext& context);
Communicator& replicas_of(TrainingContext& context, const ShardGroups& groups);

// If the groups are hybrid: the group of each rank, among shard groups and among replica groups.
// Otherwise empty.
std::vector<RankGroups> axes_of(const Mesh& mesh, const ShardGroups& groups);

}  // namespace lockstep
