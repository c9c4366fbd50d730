// The cost of one optimizer step on a rank, for all tensors or a share: the time of clipping and of the
// update, and the memory that the update keeps.
#pragma once

#include "costs/optimizer.hpp"
#include "memory/memory_plan.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// One optimizer step's work on this rank.
struct UpdateWork {
  QueuedWork norm, scaling;  // clipping: before and after the norm is known to all
  QueuedWork optimizer;
  double on_host = 0;  // instead: seconds in which the host clips and updates
  bool clips = false;
};

// Elements of so many tensors: a model, an FSDP shard, a server's part.
struct TensorShare {
  double elements = 0;
  int tensors = 0;
};

// Reads the gradients for their norm and scales them.
QueuedWork clipping_work(const Job& job, const TensorShare& share);
QueuedWork optimizer_work(const Job& job, const TensorShare& share);
// The optimizer updates `updated`; where the job clips, the rank takes the norm of `normed` and scales it.
UpdateWork update_work(const Job& job, const TensorShare& updated, const TensorShare& normed);

// Memory that the update keeps on the device, and takes while it runs.
OptimizerMemory optimizer_memory(const OptimizerSpec& optimizer, Precision precision);

}  // namespace lockstep
