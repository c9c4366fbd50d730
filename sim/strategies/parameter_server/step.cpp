// Plays the segments of a worker's step on two clocks, by the rule of QueuedWork (costs/cost.hpp):
// the device computes a segment when the device is free and the host has issued the segment. The
// data loader prepares two batches ahead, as PyTorch's does.
#include "strategies/parameter_server/step.hpp"

#include <algorithm>

#include "core/index.hpp"

namespace lockstep {

void PsStep::clear(double now) {
  started = now;
  parts = {};
  host = device = gated = 0;
  ready.clear();
  done.clear();
  losses.clear();
}

// The device is idle until `until`: first it waits for its host, and then `seconds` for input.
void PsStep::load(const PsSystem& system, double seconds, double until) {
  const double idle_from = std::max(host, device);
  parts.host_bound += idle_from - device;
  parts.data_loading += seconds;
  if (system.observer) {
    if (idle_from > device) {
      done.push_back({nullptr, WaitCause::host_bound, {}, 0, device, idle_from});
    }
    done.push_back({nullptr, WaitCause::data_loading, {}, 0, idle_from, until});
  }
  device = until;
}

// The host waits until the loader has the next micro-batch. The copy to the device runs on the
// compute stream and counts as data loading.
void PsStep::take_input(const PsSystem& system) {
  if (system.input_seconds > 0 || system.late_input) {
    const double input = input_ready_ - started;
    const double idle_from = std::max(host, device);
    if (input > idle_from) load(system, input - idle_from, input);
    host = std::max(host, input);
    // Two micro-batches are prepared ahead (the default of PyTorch's prefetch_factor). Therefore
    // the loader begins the next micro-batch when the present one is ready, but not before the
    // previous one has been taken.
    input_ready_ = std::max(input_ready_, input_taken_) + system.input_seconds;
    if (system.late_input) input_ready_ += system.late_input(worker, inputs_++);
    input_taken_ = started + host;
  }
  const double copy = system.input_copy_seconds;
  if (copy > 0) load(system, copy, std::max(host, device) + copy);
}

void PsStep::walk(const PsSystem& system, std::size_t end) {
  DeviceSlowdown slowness{1, system.workers[at(worker)].device};
  int drawn = -1;
  for (std::size_t s = ready.size(); s < end; ++s) {
    const PsSegment& segment = system.segments[s];
    // The slow-down is drawn once for each optimizer batch.
    if (segment.batch != drawn) {
      slowness.factor = system.factor(worker, number * system.batches + segment.batch);
      drawn = segment.batch;
    }
    if (segment.needs_input) take_input(system);
    const QueuedWork& work = segment.work;
    const double factor = slowness.of(work);
    const double busy = factor * work.busy;
    const double finish = std::max(device + busy, host + scaled_span(work, factor));
    parts.host_bound += std::max(0.0, finish - device - busy);  // rounding could make this -1e-19
    busy_part(parts, segment.phase) += busy;
    if (system.observer) {
      done.push_back({&segment, WaitCause::host_bound, slowness, host, device, finish});
    }
    host += work.host;
    device = finish;
    ready.push_back(device);
  }
}

}  // namespace lockstep
