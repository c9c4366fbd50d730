// Ranks that share one copy of what is sharded, and ranks that hold the same share: FSDP's and ZeRO's
// process groups.
#pragma once

#include <vector>

#include "costs/nccl_topology.hpp"
#include "strategies/common/lane_classes.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

struct ShardGroups {
  int ranks = 1;     // that share one copy
  int replicas = 1;  // copies
  CommGroup shard, replica;
  bool sharded() const { return ranks > 1; }
  bool hybrid() const { return ranks > 1 && replicas > 1; }
};

// Groups of `ranks` consecutive ranks. Throws ConfigError about `field` when they do not fit the job
// or the nodes.
ShardGroups shard_groups(const Job& job, int ranks, const char* field);

// Hybrid: the groups that share one copy, and the groups that hold the same share. Else none.
std::vector<RankGroups> axes_of(const ShardGroups& groups);
// Their lanes, for RankGroup::add_communicator.
std::vector<std::vector<int>> shard_lanes(const ShardGroups& groups,
                                          const std::vector<int>& lane_of_rank);
std::vector<std::vector<int>> replica_lanes(const ShardGroups& groups,
                                            const std::vector<int>& lane_of_rank);

}  // namespace lockstep
