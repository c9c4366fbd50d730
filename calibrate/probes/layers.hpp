// Times of every layer of a real training step, forward and backward, and of the whole step without
// any observer. Plain interface: no LibTorch in here.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"
#include "workload/step.hpp"

namespace lockstep {

// One repetition: seconds of one observed step by layer, and of the plain step beside it.
struct LayerSamples {
  std::vector<double> forward;   // by layer
  std::vector<double> backward;  // by layer
  double plain_forward = 0;
  double plain_backward = 0;
  double optimizer = 0;
  // GPUs: host seconds to issue a pass; 0 on CPUs, where the host does the work itself.
  double host_forward = 0;
  double host_backward = 0;
  double host_update = 0;
  double disturbance = 0;  // share of the time that others had the core
  double paused = 0;       // before its two steps, which is in no other figure
};

struct MeasuredMemory {  // bytes of tensors
  double parameters = 0, buffers = 0, optimizer_state = 0;
  double after_forward =
      0;  // live beyond parameters, buffers, state and the batch: saved activations
  double batch = 0;
  double peak = 0;      // of everything, in a step after the first
  double reserved = 0;  // by a caching allocator; 0 on CPUs
  // GPUs: bytes that libraries keep between two steps, beside parameters, buffers, state and the
  // batch; and by layer the largest block that came and went while it computed.
  double kept = 0;
  std::vector<double> forward_workspace, backward_workspace;
};

struct LayerProbeOptions {
  std::string device = "cpu";  // "cpu", "cuda:0"
  OptimizerSpec optimizer;
  std::uint64_t seed = 1;
  int warm_up = 2;  // steps before the first repetition
  // Before each step, as a rank waits for messages in training. A core that was idle computes
  // slower, and on CPUs others' memory has gone through the caches. The pause lasts as long as that
  // takes at least.
  double pause_seconds = 0;
  // Called after each repetition with all repetitions so far; true ends the measurement.
  std::function<bool(const std::vector<LayerSamples>&)> enough;
};

struct LayerProbeResult {
  std::vector<LayerSamples> samples;
  MeasuredMemory memory;
};

// Trains `step`'s network on random data and times it. Observed and plain steps alternate. On a GPU
// all times but host_* are the device's, without waiting for the host. Throws OutOfDeviceMemory
// when the step does not fit, std::runtime_error otherwise.
LayerProbeResult probe_layers(const TrainingStep& step, const LayerProbeOptions& options);

class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep
