// Reads ahead as DeepSpeed does.
#include "strategies/fsdp/offloaded_shards.hpp"

namespace lockstep {

OffloadedShards::OffloadedShards(TrainingContext& context)
    : context_(context), nvme_(context.ranks.add_stream("NVMe", WaitCause::communication)) {}

Event OffloadedShards::to_device(StreamId stream, const FsdpUnitPlan& unit, const Event& after) {
  if (unit.to_device.seconds <= 0) return after;
  if (unit.read <= 0) return context_.copy(stream, unit.to_device, after);
  constexpr std::size_t buffers = 5;  // that are read into ahead (fact H115)
  Event free;
  if (read_.size() == buffers) {
    free = read_.front();
    read_.pop_front();
  }
  const Event read = context_.ranks.enqueue(nvme_, unit.read, free, true, "NVMe read");
  context_.ranks.enqueue(stream, 0, after, false);
  read_.push_back(context_.copy(stream, unit.to_device, read));
  return read_.back();
}

Event OffloadedShards::gradients_to_host(StreamId stream, const FsdpUnitPlan& unit,
                                         const Event& after) {
  if (unit.to_host.seconds <= 0) return after;
  const Event copied = context_.copy(stream, unit.to_host, after);
  if (unit.write <= 0) return copied;
  return context_.ranks.enqueue(nvme_, unit.write, copied, false, "NVMe write");
}

}  // namespace lockstep
