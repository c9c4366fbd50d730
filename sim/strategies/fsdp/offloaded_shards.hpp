// Copies of FSDP's shards between the device and the memory that holds them: host or NVMe (facts
// 44, H115, H116). FsdpHooks calls them before each all-gather and after each reduction. Without
// offload, both calls do nothing.
#pragma once

#include "strategies/fsdp/plan.hpp"

namespace lockstep {

class OffloadedShards {
 public:
  explicit OffloadedShards(TrainingContext& context);

  // Copies a unit's shard to the device, on `stream` and after `after`. Returns the event that the
  // shard has arrived, or `after` if the shard is stored on the device.
  Event to_device(StreamId stream, const FsdpUnitPlan& unit, const Event& after);
  // Copies a unit's reduced gradients, after `after`, to the tier from which the update reads them.
  // Returns the event that they have arrived, or `after` if the device updates them.
  Event gradients_to_host(StreamId stream, const FsdpUnitPlan& unit, const Event& after);

 private:
  TrainingContext& context_;
  const StreamId nvme_;
};

}  // namespace lockstep
