// Measures every layer of a real training step, forward and backward, and the whole step without
// observation of layers. Includes no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"
#include "workload/step.hpp"

namespace lockstep {

// One repetition: seconds of an observed step by layer, and of a plain step.
struct LayerSamples {
  std::vector<double> forward;   // by layer
  std::vector<double> backward;  // by layer
  double plain_forward = 0;
  double plain_backward = 0;
  double optimizer = 0;
  // On GPUs: host seconds to issue a pass; 0 on CPUs, where the host does the work itself.
  double host_forward = 0;
  double host_backward = 0;
  double host_update = 0;
  double disturbance = 0;  // share of the time in which others used the core
  double paused = 0;  // seconds of the pauses before its two steps, not included in other members
};

struct MeasuredMemory {  // bytes of tensors
  double parameters = 0, buffers = 0, optimizer_state = 0;
  // Saved activations: live bytes besides parameters, buffers, state and the batch.
  double after_forward = 0;
  double batch = 0;
  double peak = 0;      // peak of all tensors, in a step after the first
  double reserved = 0;  // reserved by a caching allocator; 0 on CPUs
  // On GPUs. `kept`: bytes that libraries hold between two steps, besides parameters, buffers,
  // state and the batch. `*_workspace`: by layer, the largest block that was both allocated and
  // freed during the layer.
  double kept = 0;
  std::vector<double> forward_workspace, backward_workspace;
};

struct LayerProbeOptions {
  std::string device = "cpu";  // "cpu", "cuda:0"
  OptimizerSpec optimizer;
  std::uint64_t seed = 1;
  int warm_up = 2;  // steps before the first repetition
  // Seconds of a pause before each step, which stands for a wait for messages in training: a core
  // that was idle computes slower, and on CPUs other memory passes through the caches. The pause is
  // longer if that traffic takes longer.
  double pause_seconds = 0;
  // Called after each repetition with all repetitions so far; true ends the measurement.
  std::function<bool(const std::vector<LayerSamples>&)> enough;
};

struct LayerProbeResult {
  std::vector<LayerSamples> samples;
  MeasuredMemory memory;
};

// Trains the network of `step` on random data and measures it. Observed and plain steps alternate.
// On a GPU all times except host_* are device times, without waits for the host. Throws
// OutOfDeviceMemory if the step does not fit into memory, and std::runtime_error for other errors.
LayerProbeResult probe_layers(const TrainingStep& step, const LayerProbeOptions& options);

class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep
