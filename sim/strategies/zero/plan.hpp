// The plan of a ZeRO step, made before the simulation: the buckets, their prices, and the points at
// which buckets are reduced and updated parameters are collected. The hooks of zero.cpp issue it
// step after step. Facts 63-66 of docs/facts.md.
//
//   backward      | layers | cut: copies, reduce bucket 0 | layers | cut: copies, reduce bucket 1 |
//   update        each rank updates its share of the parameters
//   after_update  all-gather of the parameters, bucket by bucket in the order of forward
#pragma once

#include <vector>

#include "strategies/common/replica.hpp"
#include "strategies/common/shard_groups.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/zero/options.hpp"

namespace lockstep {

// The groups of ranks that share state, and the buckets; without prices. Time and memory use the
// same layout.
struct ZeroLayout {
  ZeroOptions options;
  ShardGroups groups, expert_groups;    // of all parameters except experts; of experts
  int gradient_bytes = 4;               // of one element
  std::vector<GradientTensor> tensors;  // all gradients, in definition order
  std::vector<Bucket> buckets;          // in the order of backward; empty if no gradient moves

  // Whether gradients are reduce-scattered. Otherwise they are all-reduced, and every rank has all
  // gradients.
  bool scatters() const { return options.reduction == GradientReduction::reduce_scatter; }
  const ShardGroups& groups_of(const Bucket& bucket) const {
    return bucket.expert ? expert_groups : groups;
  }
  // Whether the whole state of a tensor lies on one rank.
  bool keeps_tensors_whole() const {
    return !scatters() && options.partition != StatePartition::elements;
  }
  // Whether gradients are sent to other ranks or copied to the host in a step.
  bool moves_gradients() const {
    return groups.ranks * groups.replicas > 1 || offloaded_share() > 0;
  }
  // The share of a rank's parameters that the host updates, 0 to 1.
  double offloaded_share() const {
    return options.offload.is_used() ? options.offload.fraction : 0;
  }
  // The mean share that one rank updates, of the experts' parameters or of all others.
  double share(bool expert = false) const {
    return 1.0 / (expert ? expert_groups.ranks : groups.ranks);
  }
  // With whole tensors: by tensor, whether the rank with the most elements updates it. Empty if
  // each rank updates a part of every tensor.
  std::vector<bool> whole_tensors() const;
  // The parameters that the rank with the most elements updates, on its device or host.
  TensorShare updated() const;
};

// Throws ConfigError if shard_group does not fit the ranks or the nodes.
ZeroLayout zero_layout(const Job& job, const ZeroOptions& options);

// The prices of a bucket. A transfer without seconds does not happen.
struct ZeroBucket {
  PricedTransfer reduce;     // over the ranks that share a copy; an all-reduce is over all ranks
  PricedTransfer replicate;  // all-reduce of the shards over the copies
  PricedTransfer to_host;    // copy of the rank's shard, if the host updates it
  // Collection of the updated parameters: one all-gather, or a broadcast of each whole tensor.
  std::vector<PricedTransfer> gather;
  bool expert = false;
};

// The actions after a run of backward layers at whose end one or more buckets are full.
struct ZeroCut {
  QueuedWork copies;         // gradients into their buckets
  std::vector<int> buckets;  // indices of the full buckets, in the order of their reduction
};

// Everything that the hooks issue.
struct ZeroPlan {
  ZeroLayout layout;
  std::vector<ZeroBucket> buckets;
  std::vector<ZeroCut> cuts;
  // Passes of a micro-batch: [whether it is the step's first][whether it reduces gradients]. Units
  // are the buckets (pre_forward waits for their parameters), and then the cuts (post_backward).
  Passes passes[2][2];
  QueuedWork add_shard;        // stage 2: adds a later micro-batch's shard to the sum so far
  bool shards_return = false;  // stage 2: the sum so far comes back from the host for this
  PricedTransfer scalar;       // all-reduce of one number over the shard group
  UpdateWork update;           // of the rank with the most elements
};

// Plans and prices the steps of one part of the model.
ZeroPlan zero_plan(TrainingContext& context, const Replica& replica, const ZeroLayout& layout);

}  // namespace lockstep
