// Copies of FSDP's shards between the device and the tiers that hold them (facts 44, H115, H116).
#pragma once

#include "strategies/fsdp/plan.hpp"

namespace lockstep {

class OffloadedShards {
 public:
  explicit OffloadedShards(TrainingContext& context);

  // A unit's shard, on the device: at once after `after` where it lives there.
  Event to_device(StreamId stream, const FsdpUnitPlan& unit, const Event& after);
  // A unit's reduced gradients, in the tier from which the update reads them.
  Event gradients_to_host(StreamId stream, const FsdpUnitPlan& unit, const Event& after);

 private:
  TrainingContext& context_;
  const StreamId nvme_;
};

}  // namespace lockstep
