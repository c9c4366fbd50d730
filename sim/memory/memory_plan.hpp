// Plans of device memory in plain numbers: everything that a rank of a replicating strategy holds
// besides activations. Strategies fill a plan in, and step_memory() simulates it; docs/memory.md
// has the formulas.
// Units: `*_bytes` are bytes of a rank; `*_bytes_per_element`, `element_bytes` and `pushed_bytes`
// are bytes per element; `*_share` and `*_fraction` are between 0 and 1.
#pragma once

#include <vector>

#include "workload/loop_temporaries.hpp"
#include "workload/precision.hpp"

namespace lockstep {

// The update of one tensor by a rule of its own (Muon's matrices). Such tensors are updated one
// after the other.
struct TensorUpdate {
  int tensor = 0;  // index among the trainable tensors
  double state_bytes_per_element = 0;
  double temporary_bytes_per_element = 0;  // live to the end of the update
  std::vector<double> temporaries;  // bytes of each; all live together while the tensor is updated

  bool operator==(const TensorUpdate&) const = default;
};

// The memory of the optimizer on this rank.
struct OptimizerMemory {
  // State per element that this rank updates, allocated in the first step: for example 4 for SGD
  // with momentum, 8 for Adam, and 4 more for an fp32 master copy (fact 137). 0 = none, also if a
  // server makes the update.
  double state_bytes_per_element = 0;
  // Temporaries of all tensors together, which live only during the update
  // (optimizer_temporary_bytes() of costs/optimizer.hpp; facts 127, 138). Examples in fp32: 4 for
  // foreach Adam, 4 for foreach SGD with weight decay, 0 for fused implementations.
  double temporary_bytes_per_element = 0;
  // Bytes per element of one of the tensors of the state. REQUIRES: more than 0.
  double state_element_bytes = 4;
  // Temporaries of the one tensor that is being updated, for the for-loop implementations of
  // optimizers.
  LoopTemporaries loop{};
  std::vector<TensorUpdate> others{};  // Muon's matrices; the fields above do not apply to them

  bool operator==(const OptimizerMemory&) const = default;
};

// A rank that holds all parameters: a rank of DDP or ZeRO, a parameter-server worker, a single GPU.
struct ReplicatedPlan {
  // Gradient buckets in launch order (fact 3), in bytes; empty = no buckets. At construction DDP
  // allocates one bucket; it allocates the listed ones when it rebuilds its buckets after the first
  // step (facts 2, 13).
  std::vector<double> bucket_bytes;
  bool rebuilds_buckets = true;  // false: the listed buckets exist from the start (fact 4)
  bool gradient_as_bucket_view = false;
  // Bytes held from construction on: error feedback (fact 21), a buffer for one message, or
  // PipeDream's old versions of the weights.
  double hook_state_bytes = 0;
  double hook_temporary_fraction = 0;  // share of a bucket in flight: 0.5 for fp16 (fact 20)
  // Every gradient is put into its bucket at once, also in micro-batches that reduce nothing
  // (ZeRO).
  bool gradients_live_in_buckets = false;
  // Half-precision gradients stay until a backward has ended, and are added to fp32 ones then
  // (nanotron, optim/gradient_accumulator.py: FP32GradientAccumulator.backward).
  bool gradients_join_late = false;
  double gradient_shard_bytes = 0;  // reduced gradients, from the first backward to the next step
  double updated_share = 1;         // share of the parameters that this rank updates
  double updated_share_of_experts = 1;
  // by trainable tensor: whether this rank updates it; empty = all
  std::vector<bool> updated_tensors;
  double kept_state_bytes = 0;  // master copies on the device of tensors that the host updates
  double flat_copy_bytes = 0;   // one tensor that lives for a moment after the update (local SGD)

  bool operator==(const ReplicatedPlan&) const = default;
};

// The whole plan of such a rank.
struct MemoryPlan {
  ReplicatedPlan replicated;
  OptimizerMemory optimizer;
  int micro_batches = 1;           // gradient accumulation
  double communication_bytes = 0;  // NCCL buffers, outside the allocator (fact 110)

  bool operator==(const MemoryPlan&) const = default;
};

// A parameter server on a GPU (facts 77-84).
struct ServerPlan {
  std::vector<double> tensor_elements;  // of each parameter that the server owns
  int element_bytes = 4;
  double pushed_bytes = 4;  // of an element as it arrives from a worker
  OptimizerMemory optimizer;
  // gradients of the server's whole part that can be in flight or queued at the same time
  int receive_buffers = 1;
};

}  // namespace lockstep
