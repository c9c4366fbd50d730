// The plan of a DDP step, made before the simulation: cuts of backward, buckets that are launched
// at each cut, and the prices of all work and messages. The hooks of ddp.cpp issue it step after
// step. Numbers in brackets are facts of docs/facts.md.
#pragma once

#include <vector>

#include "strategies/common/replica.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/ddp/hooks.hpp"

namespace lockstep {

// The actions after a run of backward layers at whose end one or more buckets are full.
struct DdpCut {
  QueuedWork copies;          // copies of the run's gradients into buckets, with the division [7]
  std::vector<int> launches;  // indices of the buckets whose reduction begins here, in order [8]
};

// A bucket with the prices of its reduction.
struct PlannedBucket {
  double delay = 0;     // seconds before the all-reduce: Horovod's cycle and negotiation
  QueuedWork joined;    // Horovod's copy of the tensors into its buffer, beside backward
  HookPlan hook;        // the reduction: the plain all-reduce or a communication hook
  QueuedWork copy_out;  // copies back into .grad, after backward [12]
  bool expert = false;  // reduced over the ranks that hold the same experts
};

// A batch norm over all ranks (torch/nn/modules/_functions.py: SyncBatchNorm). In forward, mean,
// inverse deviation and count of each rank are all-gathered before the values are normalized. In
// backward, two sums for each channel are all-reduced before the gradient of the input is computed.
// No layer runs beside these messages.
struct SharedStatistics {
  QueuedWork joined;       // copies the rank's statistics into one tensor
  PricedTransfer gather;   // in forward
  QueuedWork combined;     // computes the common statistics from all ranks'
  QueuedWork joined_sums;  // copies the sums of backward into one tensor
  PricedTransfer reduce;   // in backward
  bool again = false;      // a checkpointed layer runs forward in backward, too
};

// Passes, cuts and buckets of a micro-batch that reduces.
struct DdpSchedule {
  Passes passes;  // units: the cuts in the order of backward, then the batch norms over all ranks
  std::vector<DdpCut> cuts;
  std::vector<PlannedBucket> buckets;  // in the order of their launch
};

// Everything that the hooks issue.
struct DdpPlan {
  const DdpSchedule& schedule(int step) const { return step == 0 ? first : later; }

  DdpSchedule first, later;             // of step 0, and of all further steps [2, 3]
  std::vector<PricedTransfer> buffers;  // broadcasts of buffers, one for each element type [15]
  QueuedWork buffer_copies;             // buffers into one tensor before, and back after
  std::vector<SharedStatistics> statistics;  // in the order of the layers
  Passes alone, alone_adding;  // of micro-batches that reduce nothing; units: the batch norms
  PricedTransfer bitmap;       // all-reduce of flags that say which parameters were used [19]
  PricedTransfer indices;      // broadcast of indices or sizes of the rebuilt buckets [3]
};

// Plans and prices the steps of one part of the model. Without other copies of the parameters
// nothing is reduced.
DdpPlan ddp_plan(TrainingContext& context, const Replica& replica, const DdpOptions& options);

// Indices of the batch norms with statistics over all ranks; empty without `sync_batch_norm`, and
// on one GPU.
std::vector<int> shared_statistics(const Job& job, const DdpOptions& options);

// Whether the job is Megatron's local DDP. It keeps all gradients in one buffer, divides the buffer
// in one pass and reduces it in one piece after backward (model/distributed.py:
// DistributedDataParallel, allreduce_gradients).
bool keeps_one_buffer(const Job& job, const DdpOptions& options);
// The options with the values that follow from the job: a single bucket for Megatron's local DDP.
DdpOptions options_for(const Job& job, DdpOptions options);

// Bytes of one gradient element in `.grad` and in the buckets.
int ddp_gradient_bytes(const DdpOptions& options, Precision precision);
// The gradients that are reduced, in definition order.
std::vector<GradientTensor> ddp_tensors(const Job& job, const DdpOptions& options);
// The buckets of PyTorch or of Horovod, by `options.fusion`.
BucketPlan ddp_buckets(const Job& job, const DdpOptions& options);

}  // namespace lockstep
