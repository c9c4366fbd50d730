// The plan of a DDP step, made before the simulation: the cuts (places in backward after which
// buckets are launched), the buckets of each cut, and the costs of all work and messages. The hooks
// of ddp.cpp issue the plan in each step. Numbers in brackets are facts of docs/facts.md.
#pragma once

#include <vector>

#include "strategies/common/replica.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/ddp/hooks.hpp"

namespace lockstep {

// The actions at a cut, which is a place between two layers of backward, or its end. A cut
// launches the buckets that the layers since the previous cut have filled, and full buckets that
// had to wait for earlier ones. The last cut may launch none. Without overlap, the last cut is the
// only one and launches all buckets.
struct DdpCut {
  // Copies of these layers' gradients into buckets, with the division [7]. None for Horovod, and if
  // fp32 main gradients already lie in the buckets.
  QueuedWork copies;
  // Indices of the buckets whose reduction starts at the cut, in order [8].
  std::vector<int> launches;
};

// A bucket with the costs of its reduction.
struct PlannedBucket {
  double delay = 0;     // Horovod: seconds of cycle and negotiation before the all-reduce
  QueuedWork joined;    // Horovod's copy of the tensors into its buffer; runs beside backward
  HookPlan hook;        // the reduction: the plain all-reduce or a communication hook
  QueuedWork copy_out;  // copies back into .grad; run after backward [12]
  bool expert = false;  // reduced over the ranks that hold the same experts
};

// A batch norm whose statistics cover all ranks (torch/nn/modules/_functions.py: SyncBatchNorm). In
// forward, the mean, inverse deviation and count of each rank are all-gathered before the values
// are normalised. In backward, two sums for each channel are all-reduced before the gradient of the
// input is computed. No layer runs beside these messages.
struct SharedStatistics {
  QueuedWork joined;       // copy of the rank's statistics into one tensor
  PricedTransfer gather;   // in forward
  QueuedWork combined;     // kernels that compute the common statistics from all ranks' statistics
  QueuedWork joined_sums;  // copy of backward's sums into one tensor
  PricedTransfer reduce;   // in backward
  bool again = false;      // a checkpointed layer also runs its forward in backward
};

// The passes, cuts and buckets of a micro-batch that reduces its gradients.
struct DdpSchedule {
  // Unit numbers in `passes`: first the cuts in the order of backward, then the SyncBatchNorm
  // layers.
  Passes passes;
  std::vector<DdpCut> cuts;
  std::vector<PlannedBucket> buckets;  // in the order of their launch
};

// Everything that the hooks issue.
struct DdpPlan {
  const DdpSchedule& schedule(int step) const { return step == 0 ? first : later; }

  DdpSchedule first, later;             // of step 0, and of all later steps [2, 3]
  std::vector<PricedTransfer> buffers;  // broadcasts of buffers, one for each element type [15]
  // Copies of the buffers into one tensor before the broadcast, and back afterwards.
  QueuedWork buffer_copies;
  std::vector<SharedStatistics> statistics;  // in the order of the layers
  // Passes of micro-batches that reduce nothing: of the step's first one, and of later ones, which
  // add to its gradients. Their units are the SyncBatchNorm layers.
  Passes alone, alone_adding;
  // The next two transfers have no seconds if the options do not need them.
  PricedTransfer bitmap;  // all-reduce of flags that mark the parameters that were used [19]
  // One broadcast about the rebuilt buckets. After step 0 it is issued twice: for their indices,
  // then for their sizes [3].
  PricedTransfer indices;
};

// Plans the steps of one part of the model and computes their costs. If the job has only one copy
// of the model, nothing is reduced.
DdpPlan ddp_plan(TrainingContext& context, const Replica& replica, const DdpOptions& options);

// Indices of the SyncBatchNorm layers; empty without `sync_batch_norm`, and if the job has only one
// copy of the model.
std::vector<int> shared_statistics(const Job& job, const DdpOptions& options);

// Whether the job uses Megatron's local DDP. It has all gradients in one buffer, divides the buffer
// in one pass and reduces it as a whole after backward (model/distributed.py:
// DistributedDataParallel, allreduce_gradients).
bool keeps_one_buffer(const Job& job, const DdpOptions& options);
// The options; for Megatron's local DDP, changed to one bucket that holds the gradients.
DdpOptions options_for(const Job& job, DdpOptions options);

// Bytes of one gradient element in `.grad` and in the buckets.
int ddp_gradient_bytes(const DdpOptions& options, Precision precision);
// The gradients that are reduced, in definition order.
std::vector<GradientTensor> ddp_tensors(const Job& job, const DdpOptions& options);
// The buckets of PyTorch or of Horovod, depending on `options.fusion`.
BucketPlan ddp_buckets(const Job& job, const DdpOptions& options);

}  // namespace lockstep
