// Issues copies between device, host and NVMe drives. The drives read shards ahead, in the order of
// their uses. Gradients are written after they have been copied to the host.
#include "strategies/fsdp/offloaded_shards.hpp"

namespace lockstep {

OffloadedShards::OffloadedShards(TrainingContext& context)
    : context_(context), nvme_(context.ranks.add_stream("NVMe", WaitCause::communication)) {}

// A read from NVMe starts as soon as the drives are free. The copy to the device waits for the read
// and for `after`.
Event OffloadedShards::to_device(StreamId stream, const FsdpUnitPlan& unit, const Event& after) {
  if (unit.to_device.seconds <= 0) return after;
  if (unit.read <= 0) return context_.copy(stream, unit.to_device, after);
  const Event read = context_.ranks.enqueue(nvme_, unit.read, {}, true, "NVMe read");
  context_.ranks.enqueue(stream, 0, after, false);
  return context_.copy(stream, unit.to_device, read);
}

Event OffloadedShards::gradients_to_host(StreamId stream, const FsdpUnitPlan& unit,
                                         const Event& after) {
  if (unit.to_host.seconds <= 0) return after;
  const Event copied = context_.copy(stream, unit.to_host, after);
  if (unit.write <= 0) return copied;
  return context_.ranks.enqueue(nvme_, unit.write, copied, false, "NVMe write");
}

}  // namespace lockstep
