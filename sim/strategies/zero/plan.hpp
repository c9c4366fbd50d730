// The plan of one ZeRO step, made before the simulation: the buckets, their prices, and the points
// at which they are reduced and collected. The hooks of zero.cpp carry it out. Numbers in brackets:
// facts of docs/strategies.md.
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

  // The alternative, an all-reduce, leaves all gradients on every rank.
  bool scatters() const { return options.reduction == GradientReduction::reduce_scatter; }
  const ShardGroups& groups_of(const Bucket& bucket) const {
    return bucket.expert ? expert_groups : groups;
  }
  // Whether the whole state of a tensor lies on one rank.
  bool keeps_tensors_whole() const {
    return !scatters() && options.partition != StatePartition::elements;
  }
  // Whether anything is sent or copied in a step.
  bool moves_gradients() const {
    return groups.ranks * groups.replicas > 1 || offloaded_share() > 0;
  }
  // The share of a rank's parameters that the host updates.
  double offloaded_share() const {
    return options.offload.is_used() ? options.offload.fraction : 0;
  }
  // The mean share of the trainable parameters, or of the experts', that one rank updates.
  double share(bool expert = false) const {
    return 1.0 / (expert ? expert_groups.ranks : groups.ranks);
  }
  // Tensors of the rank that updates most tensors; empty if each rank updates a part of every
  // tensor.
  std::vector<bool> whole_tensors() const;
  // Parameters of the rank that updates most, on its device or host: one piece of every tensor that
  // it touches.
  TensorShare updated() const;
};

// Throws ConfigError if shard_group does not fit the ranks or the nodes.
ZeroLayout zero_layout(const Job& job, const ZeroOptions& options);

struct ZeroBucket {
  PricedTransfer reduce;               // over the ranks that share a copy, or over all; none on one
  PricedTransfer replicate;            // of the shards, over the copies
  PricedTransfer to_host;              // of this rank's shard, where the host updates it
  std::vector<PricedTransfer> gather;  // of the updated parameters
  bool expert = false;
};

// The actions after a run of backward layers that fills buckets.
struct ZeroCut {
  QueuedWork copies;  // gradients into their buckets
  std::vector<int> buckets;
};

struct ZeroPlan {
  ZeroLayout layout;
  std::vector<ZeroBucket> buckets;
  std::vector<ZeroCut> cuts;
  // Units: the buckets, then the cuts. Indexed by whether it is the step's first micro-batch, and
  // by whether gradients are reduced in it.
  Passes passes[2][2];
  QueuedWork add_shard;        // stage 2: a later micro-batch's shard to what is there
  bool shards_return = false;  // stage 2: ... for which it comes back from the host
  PricedTransfer scalar;       // all-reduce of one number
  UpdateWork update;
};

ZeroPlan zero_plan(TrainingContext& context, const Replica& replica, const ZeroLayout& layout);

}  // namespace lockstep
