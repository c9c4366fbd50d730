// What ZeRO will do in one step of a job, before time runs: the buckets, what they cost, and where
// they are reduced and collected. Numbers in brackets: facts of docs/strategies.md.
#pragma once

#include <vector>

#include "strategies/common/replica.hpp"
#include "strategies/common/shard_groups.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/zero/options.hpp"

namespace lockstep {

struct ZeroLayout {
  ZeroOptions options;
  ShardGroups groups, expert_groups;
  int gradient_bytes = 4;  // of one element
  std::vector<GradientTensor> tensors;
  std::vector<Bucket> buckets;  // in the order of backward; none where no gradient moves

  // The all-reduce leaves every rank all gradients.
  bool scatters() const { return options.reduction == GradientReduction::reduce_scatter; }
  const ShardGroups& groups_of(const Bucket& bucket) const {
    return bucket.expert ? expert_groups : groups;
  }
  // Whether a tensor's state lies with one rank.
  bool keeps_tensors_whole() const {
    return !scatters() && options.partition != StatePartition::elements;
  }
  // Whether anything is sent or copied in a step.
  bool moves_gradients() const {
    return groups.ranks * groups.replicas > 1 || offloaded_share() > 0;
  }
  // Of a rank's parameters, updated by the host.
  double offloaded_share() const {
    return options.offload.is_used() ? options.offload.fraction : 0;
  }
  // Mean part of the trainable parameters, or of the experts', that one rank updates.
  double share(bool expert = false) const {
    return 1.0 / (expert ? expert_groups.ranks : groups.ranks);
  }
  // The tensors that the rank with the most of them updates; empty where each rank updates a part of all.
  std::vector<bool> whole_tensors() const;
  // The parameters that the rank with the most of them updates, on its device or host: one piece of every tensor
  // that it touches.
  TensorShare updated() const;
};

// Throws ConfigError when shard_group does not fit the ranks or the nodes.
ZeroLayout zero_layout(const Job& job, const ZeroOptions& options);

struct ZeroBucket {
  PricedTransfer reduce;               // over the ranks that share a copy, or over all; none on one
  PricedTransfer replicate;            // of the shards, over the copies
  PricedTransfer to_host;              // of this rank's shard, where the host updates it
  std::vector<PricedTransfer> gather;  // of the updated parameters
  bool expert = false;
};

// What follows a run of backward layers that fills buckets.
struct ZeroCut {
  QueuedWork copies;  // gradients into their buckets
  std::vector<int> buckets;
};

struct ZeroPlan {
  ZeroLayout layout;
  std::vector<ZeroBucket> buckets;
  std::vector<ZeroCut> cuts;
  // Units: the buckets, then the cuts. By whether it is the step's first micro-batch, and whether
  // gradients are reduced in it.
  Passes passes[2][2];
  QueuedWork add_shard;        // stage 2: a later micro-batch's shard to what is there
  bool shards_return = false;  // stage 2: ... for which it comes back from the host
  PricedTransfer scalar;       // all-reduce of one number
  UpdateWork update;
};

ZeroPlan zero_plan(TrainingContext& context, const Replica& replica, const ZeroLayout& layout);

}  // namespace lockstep
