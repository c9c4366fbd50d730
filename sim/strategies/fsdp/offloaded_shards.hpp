// Copies of FSDP's shards between the device and the memory that holds them: host or NVMe (facts
// 44, H115, H116). FsdpHooks calls it before each all-gather and after each reduction; without
// offload both calls do nothing.
#pragma once

#include "strategies/fsdp/plan.hpp"

namespace lockstep {

class OffloadedShards {
 public:
  explicit OffloadedShards(TrainingContext& context);

  // Copies a unit's shard to the device, on `stream` and after `after`. Returns the moment at which
  // the shard is there: `after` itself if the shard lives on the device.
  Event to_device(StreamId stream, const FsdpUnitPlan& unit, const Event& after);
  // Copies a unit's reduced gradients to the tier from which the update reads them, after `after`.
  // Returns the moment at which they are there.
  Event gradients_to_host(StreamId stream, const FsdpUnitPlan& unit, const Event& after);

 private:
  TrainingContext& context_;
  const StreamId nvme_;
};

}  // namespace lockstep
