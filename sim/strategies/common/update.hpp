// What one optimizer step costs on a rank: clipping and the update, of all tensors or of a share.
#pragma once

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

}  // namespace lockstep
