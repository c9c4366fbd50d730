// Divides ranks into groups that fit nodes.
#include "strategies/common/shard_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

ShardGroups shard_groups(const Job& job, int ranks, const char* field) {
  const int node = job.machine.gpus_per_node;
  const auto refuse = [&](const std::string& message) {
    Diagnostic diagnostic;
    diagnostic.field = field;
    diagnostic.message = message;
    throw ConfigError(diagnostic);
  };
  if (job.gpus % ranks != 0) {
    refuse(fmt::format("{} GPUs cannot be split into groups of {}", job.gpus, ranks));
  }
  ShardGroups groups;
  groups.ranks = ranks;
  groups.replicas = job.gpus / ranks;
  groups.shard = group_of(job.machine, ranks);
  groups.replica = group_of(job.machine, job.gpus);
  if (!groups.hybrid()) return groups;
  if (job.gpus > node && ranks % node != 0 && node % ranks != 0) {
    refuse(fmt::format("groups of {} do not fit nodes of {} GPUs", ranks, node));
  }
  const int local = std::min(ranks, groups.replica.ranks_per_node);
  groups.shard.concurrent = groups.replica.ranks_per_node / local;
  groups.replica.ranks_per_node /= local;
  groups.replica.absent /= local;
  groups.replica.nodes /= std::max(1, ranks / node);
  groups.replica.concurrent = local;
  groups.replica.axis = 1;
  return groups;
}

std::vector<RankGroups> axes_of(const ShardGroups& groups) {
  if (!groups.hybrid()) return {};
  RankGroups shard, replica;
  for (int rank = 0; rank < groups.ranks * groups.replicas; ++rank) {
    shard.push_back(rank / groups.ranks);
    replica.push_back(rank % groups.ranks);
  }
  return {shard, replica};
}

std::vector<std::vector<int>> shard_lanes(const ShardGroups& groups,
                                          const std::vector<int>& lane_of_rank) {
  if (!groups.hybrid()) return {};
  return lanes_of(axes_of(groups)[0], lane_of_rank);
}

std::vector<std::vector<int>> replica_lanes(const ShardGroups& groups,
                                            const std::vector<int>& lane_of_rank) {
  if (!groups.hybrid()) return {};
  return lanes_of(axes_of(groups)[1], lane_of_rank);
}

}  // namespace lockstep
