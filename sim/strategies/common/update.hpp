// The cost of one optimizer step on a rank, for all tensors or a share: clipping, update, and the
// update's memory. Use it in every strategy that updates on ranks or servers.
#pragma once

#include "costs/optimizer.hpp"
#include "memory/memory_plan.hpp"
#include "strategies/common/network.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The host's part of an update. Chunks pass through four stages, each of which handles one chunk at
// a time: read from NVMe, update, write to NVMe, copy to the device.
struct HostUpdate {
  double seconds =
      0;  // of the cores for all chunks, clipping included; 0 = the host updates nothing
  int chunks = 1;
  double read = 0, write = 0;  // seconds of one chunk
  PricedTransfer to_device;    // of one chunk; none where parameters stay on the host
  bool delayed = false;        // the next step does not wait for it
};

// One optimizer step's work on this rank. The host's part runs concurrently with the device's.
struct UpdateWork {
  QueuedWork norm, scaling;  // clipping: before and after the norm is known to all
  QueuedWork optimizer;
  HostUpdate host;
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
// The optimizer updates `updated`; if the job clips, the rank computes the norm of `normed` and
// scales it.
UpdateWork update_work(const Job& job, const TensorShare& updated, const TensorShare& normed);

// Memory that the update keeps on the device, and its temporary memory.
OptimizerMemory optimizer_memory(const OptimizerSpec& optimizer, Precision precision);

}  // namespace lockstep
