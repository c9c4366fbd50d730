// The plan of a ZeRO step, made before the simulation: the buckets and their costs, and the places
// in the passes where buckets are reduced and updated parameters are gathered. The hooks of
// zero.cpp issue the plan in each step. Numbers are facts 63-66 of docs/facts.md.
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

// The groups of ranks that share state, and the buckets; without costs. Time and memory use the
// same layout.
struct ZeroLayout {
  ZeroOptions options;  // without `offload` on CPUs, because the state already is in host memory
  ShardGroups groups, expert_groups;    // for all parameters but experts; for experts
  int gradient_bytes = 4;               // of one element
  std::vector<GradientTensor> tensors;  // all gradients, in definition order
  std::vector<Bucket> buckets;          // in the order of backward; empty if no gradient moves

  // Whether gradients are reduce-scattered. Otherwise they are all-reduced, and every rank has all
  // gradients.
  bool scatters() const { return options.reduction == GradientReduction::reduce_scatter; }
  const ShardGroups& groups_of(const Bucket& bucket) const {
    return bucket.expert ? expert_groups : groups;
  }
  // Whether the whole state of each tensor lies on one rank.
  bool keeps_tensors_whole() const {
    return !scatters() && options.partition != StatePartition::elements;
  }
  // Whether, in a step, gradients are sent to other ranks or copied to the host.
  bool moves_gradients() const {
    return groups.ranks * groups.replicas > 1 || offloaded_share() > 0;
  }
  // The share of a rank's parameters that the host updates, 0 to 1.
  double offloaded_share() const {
    return options.offload.is_used() ? options.offload.fraction : 0;
  }
  // The mean share of the experts' parameters, or of all other parameters, that one rank updates.
  double share(bool expert = false) const {
    return 1.0 / (expert ? expert_groups.ranks : groups.ranks);
  }
  // If tensors stay whole: by tensor, whether the rank with the most elements updates it. Experts
  // are assigned separately from other tensors, and the fullest rank of each kind counts. Empty if
  // each rank updates a part of every tensor.
  std::vector<bool> whole_tensors() const;
  // Number of elements and tensors that the fullest rank updates, on its device or on its host.
  TensorShare updated() const;
};

// Throws ConfigError if the job or its nodes cannot be divided into groups of shard_group ranks.
ZeroLayout zero_layout(const Job& job, const ZeroOptions& options);

// The costs of a bucket. A transfer without seconds does not happen.
struct ZeroBucket {
  // Over the ranks that share a copy; if it is an all-reduce, over all ranks that hold these
  // parameters.
  PricedTransfer reduce;
  PricedTransfer replicate;  // all-reduce of the shards between the copies
  PricedTransfer to_host;    // copy of the rank's shard, if the host updates it
  // The gather of the updated parameters: one all-gather, or a broadcast of each whole tensor.
  std::vector<PricedTransfer> gather;
  bool expert = false;
};

// The actions at a cut. One or more buckets are full after the layers between the previous cut and
// this one.
struct ZeroCut {
  QueuedWork copies;         // copies of gradients into these buckets; none for fp32 main gradients
  std::vector<int> buckets;  // indices of the full buckets, in the order of their reduction
};

// Everything that the hooks issue.
struct ZeroPlan {
  ZeroLayout layout;
  std::vector<ZeroBucket> buckets;
  std::vector<ZeroCut> cuts;
  // The passes of a micro-batch: [whether it is the step's first][whether it reduces gradients].
  // The units are first the buckets (with ParameterGather::with_forward, pre_forward waits for a
  // bucket's parameters), then, if it reduces, the cuts (post_backward).
  Passes passes[2][2];
  QueuedWork add_shard;  // stage 2: addition of a later micro-batch's shard to the sum so far
  // Stage 2 with offload: for this addition, the sum so far is copied back from the host.
  bool shards_return = false;
  // All-reduce of one number over the shard group; no seconds if every rank has all gradients.
  PricedTransfer scalar;
  UpdateWork update;  // of the rank with the most elements
};

// Plans the steps of one part of the model and computes their costs.
ZeroPlan zero_plan(TrainingContext& context, const Replica& replica, const ZeroLayout& layout);

}  // namespace lockstep
