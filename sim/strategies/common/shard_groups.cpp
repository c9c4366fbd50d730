// Divides ranks into shard groups, and into replica groups across them that hold the same shard
// (hybrid sharding, fact 28). A group must be whole nodes or a part of one node, so that all groups
// have the same links.
#include "strategies/common/shard_groups.hpp"

#include <fmt/format.h>

#include "strategies/common/context.hpp"

namespace lockstep {

ShardGroups shard_groups(const Job& job, int ranks, const char* field) {
  const int node = job.machine.gpus_per_node, copies = job.mesh.copies();
  // Throws the error about `field`.
  const auto refuse = [&](const std::string& message) {
    Diagnostic diagnostic;
    diagnostic.field = field;
    diagnostic.message = message;
    throw ConfigError(diagnostic);
  };
  if (copies % ranks != 0) {
    refuse(fmt::format("{} GPUs cannot be split into groups of {}", copies, ranks));
  }
  ShardGroups groups;
  groups.ranks = ranks;
  groups.replicas = copies / ranks;
  groups.shard = strided_group(job, ranks, job.mesh.tensor);
  groups.replica = gradient_group(job);
  if (!groups.hybrid()) return groups;
  // Number of GPUs from the first to the last of a group; they include the tensor ranks in between.
  const int span = ranks * job.mesh.tensor;
  if (job.mesh.stage_gpus() > node && span % node != 0 && node % span != 0) {
    refuse(fmt::format("groups of {} do not fit nodes of {} GPUs", span, node));
  }
  groups.replica = strided_group(job, groups.replicas, span, 1);
  return groups;
}

ShardGroups expert_shard_groups(const Job& job) {
  ShardGroups groups;
  groups.ranks = job.mesh.expert_copies();
  groups.shard = groups.replica = expert_gradient_group(job);
  return groups;
}

Communicator& expert_shards_of(TrainingContext& context) {
  return context.stage.communicator("expert shards", expert_gradient_ranks(context.job.mesh));
}

// axes_of()[0] are the shard groups, axes_of()[1] the replica groups.
Communicator& shards_of(TrainingContext& context, const ShardGroups& groups) {
  const Mesh& mesh = context.job.mesh;
  return context.stage.communicator(
      "shards", groups.hybrid() ? axes_of(mesh, groups)[0] : gradient_ranks(mesh));
}

Communicator& replicas_of(TrainingContext& context, const ShardGroups& groups) {
  if (!groups.hybrid()) return shards_of(context, groups);
  return context.stage.communicator("replicas", axes_of(context.job.mesh, groups)[1]);
}

// Ranks of a shard group are `tensor` apart; ranks of a replica group are one shard group apart.
std::vector<RankGroups> axes_of(const Mesh& mesh, const ShardGroups& groups) {
  if (!groups.hybrid()) return {};
  return {strided_ranks(mesh, groups.ranks, mesh.tensor),
          strided_ranks(mesh, groups.replicas, groups.ranks * mesh.tensor)};
}

}  // namespace lockstep
