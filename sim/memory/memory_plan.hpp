// What a strategy that replicates the model keeps in device memory, in plain numbers: the strategies
// fill it in, step_memory() plays it. Everything a rank holds besides activations is said here;
// docs/memory.md gives the formulas. Elements are counts, `*_bytes` of dtypes are bytes per element.
#pragma once

#include <vector>

#include "workload/loop_temporaries.hpp"
#include "workload/precision.hpp"

namespace lockstep {

// A tensor that is updated by another rule than the rest, one such after the other.
struct TensorUpdate {
  int tensor = 0;  // among the trainable ones
  double state_bytes_per_element = 0;
  double temporary_bytes_per_element = 0;  // live during the whole step
  std::vector<double> temporaries;         // bytes of each; live together, while it is updated

  bool operator==(const TensorUpdate&) const = default;
};

// The tensors the optimizer needs on this rank.
struct OptimizerMemory {
  // State per element that this rank updates, born in the first step: SGD with momentum 4, Adam 8,
  // and 4 more for an fp32 master copy (fact 137). 0 = none, also when a server does the update.
  double state_bytes_per_element = 0;
  // Live only during the step. Adam's foreach form takes one parameter-sized list, 4; fused forms
  // 0; SGD's foreach form 4 with weight decay, else 0 (facts 127, 138).
  double temporary_bytes_per_element = 0;
  double state_element_bytes = 4;      // of one of its tensors
  LoopTemporaries loop{};              // of one tensor at a time: the for-loop forms
  std::vector<TensorUpdate> others{};  // Muon's matrices: none of the above holds for them

  bool operator==(const OptimizerMemory&) const = default;
};

// DDP, a parameter-server worker, one GPU: every rank holds all parameters.
struct ReplicatedPlan {
  // Gradient buckets in launch order (fact 3), in bytes; empty = no buckets. Allocated as one
  // bucket at construction and again, as listed, when they are rebuilt after the first step (facts
  // 2, 13).
  std::vector<double> bucket_bytes;
  bool rebuilds_buckets = true;  // false: the list holds from the start (fact 4)
  bool gradient_as_bucket_view = false;
  double hook_state_bytes = 0;         // error feedback (fact 21); gradients made one message
  double hook_temporary_fraction = 0;  // of a bucket, while it is in flight: 0.5 for fp16 (fact 20)
  // Every gradient goes into its bucket at once, also in micro-batches that reduce nothing (ZeRO).
  bool gradients_live_in_buckets = false;
  // Half-precision gradients stay until a backward has ended, and are added to fp32 ones then
  // (nanotron, optim/gradient_accumulator.py: FP32GradientAccumulator.backward).
  bool gradients_join_late = false;
  double gradient_shard_bytes = 0;  // reduced gradients, from the first backward to the update
  double updated_share = 1;         // of the parameters that this rank's optimizer holds
  double updated_share_of_experts = 1;
  std::vector<bool> updated_tensors;  // the share is of these trainable ones only; empty = of all
  double kept_state_bytes = 0;        // optimizer state of what the host updates
  double flat_copy_bytes = 0;         // one tensor, live for a moment after the update (local SGD)

  bool operator==(const ReplicatedPlan&) const = default;
};

// Of such a rank.
struct MemoryPlan {
  ReplicatedPlan replicated;
  OptimizerMemory optimizer;
  int micro_batches = 1;           // gradient accumulation
  double communication_bytes = 0;  // NCCL buffers, outside the allocator (fact 110)

  bool operator==(const MemoryPlan&) const = default;
};

// A parameter server on a GPU (facts 77-84).
struct ServerPlan {
  std::vector<double> tensor_elements;  // of the parameters it owns
  int element_bytes = 4;
  double pushed_bytes = 4;  // of an element, as it arrives from a worker
  OptimizerMemory optimizer;
  int receive_buffers = 1;  // gradients of its whole part that can be in flight or queued at once
};

}  // namespace lockstep
