// The cost of one optimizer step on a rank, for all tensors or for a shard: clipping, update, and
// the update's memory. Every strategy computes the cost of its update with these functions; the
// training loop plays an UpdateWork at the end of each step.
#pragma once

#include "costs/optimizer.hpp"
#include "memory/memory_plan.hpp"
#include "strategies/common/network.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The host's part of an update. Chunks pass through four stages: read from NVMe, update, write to
// NVMe, copy to the device. Each stage works on only one chunk at the same time.
struct HostUpdate {
  // Seconds in which the cores update all chunks, including clipping; 0 = the host updates nothing.
  double seconds = 0;
  int chunks = 1;
  double read = 0, write = 0;  // NVMe seconds of one chunk; 0 = memory holds the state
  PricedTransfer to_device;  // the copy of one chunk; takes no time if parameters stay on the host
  bool delayed = false;      // the next step does not wait for the update (ZeRO-Offload)
};

// The work of one optimizer step on a rank. The host's part runs beside the device's part.
struct UpdateWork {
  // Clipping: the kernels before all ranks know the norm, and the kernels afterwards. Strategies
  // that need no time of `scaling` count all kernels as `norm`.
  QueuedWork norm, scaling;
  QueuedWork optimizer;  // of the device's part
  HostUpdate host;
  bool clips = false;  // the job clips gradients
};

// A number of elements in a number of tensors, for example a model, an FSDP shard, or a server's
// part.
struct TensorShare {
  double elements = 0;
  int tensors = 0;
};

// Device work of clipping: reads the gradients for their norm, and scales them.
QueuedWork clipping_work(const Job& job, const TensorShare& share);
// Device work of the optimizer for a share of the parameters.
QueuedWork optimizer_work(const Job& job, const TensorShare& share);
// The whole update on the device. The optimizer updates `updated`. If the job clips gradients, the
// rank computes the norm of the gradients `normed` and scales them.
UpdateWork update_work(const Job& job, const TensorShare& updated, const TensorShare& normed);

// Bytes per element that the update stores on the device, and its temporary memory.
OptimizerMemory optimizer_memory(const OptimizerSpec& optimizer, Precision precision);

}  // namespace lockstep
