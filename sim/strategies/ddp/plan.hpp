// The plan of one DDP step, made before the simulation: cuts of backward, buckets that leave at
// each cut, and the prices of all parts. The hooks of ddp.cpp carry it out. Numbers in brackets:
// facts of docs/strategies.md.
#pragma once

#include <vector>

#include "strategies/common/replica.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/ddp/hooks.hpp"

namespace lockstep {

// The actions after a run of backward layers that fills a bucket.
struct DdpCut {
  QueuedWork copies;          // gradients into their buckets, division fused [7]
  std::vector<int> launches;  // buckets that are reduced now, in order [8]
};

struct PlannedBucket {
  double delay = 0;     // before the all-reduce: Horovod's cycle and negotiation
  QueuedWork joined;    // by Horovod, beside backward
  HookPlan hook;        // what stands in for the plain all-reduce
  QueuedWork copy_out;  // back into .grad [12]
  bool expert = false;
};

// A batch norm over all ranks (torch/nn/modules/_functions.py: SyncBatchNorm). In forward, mean,
// inverse deviation and count of each rank are gathered before the values are normalised. In
// backward, two sums for each channel are reduced before the gradient of the input is computed. The
// network is blocked meanwhile.
struct SharedStatistics {
  QueuedWork joined;  // into one tensor
  PricedTransfer gather;
  QueuedWork combined;     // those of all ranks
  QueuedWork joined_sums;  // of backward
  PricedTransfer reduce;
  bool again = false;  // a checkpointed layer runs forward in backward, too
};

struct DdpSchedule {
  Passes passes;  // its units are the cuts, then the batch norms over all ranks
  std::vector<DdpCut> cuts;
  std::vector<PlannedBucket> buckets;
};

struct DdpPlan {
  const DdpSchedule& schedule(int step) const { return step == 0 ? first : later; }

  DdpSchedule first, later;                  // the first step, and from then on [2, 3]
  std::vector<PricedTransfer> buffers;       // broadcasts, one for each type [15]
  QueuedWork buffer_copies;                  // flattened before, split again after
  std::vector<SharedStatistics> statistics;  // in the order of the layers
  Passes alone, alone_adding;  // of micro-batches that reduce nothing: units are the batch norms
  PricedTransfer bitmap;       // of the parameters that were used [19]
  PricedTransfer indices;      // of the rebuilt buckets [3]
};

DdpPlan ddp_plan(TrainingContext& context, const Replica& replica, const DdpOptions& options);

// The batch norms with shared statistics, if the options ask for them; none on one GPU.
std::vector<int> shared_statistics(const Job& job, const DdpOptions& options);

// Megatron's local DDP keeps all gradients in one buffer, divides it in one pass and reduces it in
// one piece after backward (model/distributed.py: DistributedDataParallel, allreduce_gradients).
bool keeps_one_buffer(const Job& job, const DdpOptions& options);
// The options with all values that follow from the job.
DdpOptions options_for(const Job& job, DdpOptions options);

// Bytes of one gradient element in `.grad` and in the buckets.
int ddp_gradient_bytes(const DdpOptions& options, Precision precision);
std::vector<GradientTensor> ddp_tensors(const Job& job, const DdpOptions& options);
// PyTorch's buckets or Horovod's, by `options.fusion`.
BucketPlan ddp_buckets(const Job& job, const DdpOptions& options);

}  // namespace lockstep
