// Measures the computation of communication hooks on buckets of a model's gradients, stage by
// stage. Includes no LibTorch.
#pragma once

#include <functional>
#include <vector>

#include "costs/hook_work.hpp"
#include "workload/step.hpp"

namespace lockstep {

// CPU seconds of each stage.
using StageSeconds = std::vector<double>;
struct HookPoint {
  double bytes = 0;                   // bytes of the bucket's gradients
  std::vector<StageSeconds> samples;  // one for every repetition
};

struct HookProbeOptions {
  HookSettings settings;
  std::vector<double> bucket_bytes;  // caps of DDP's buckets (DdpOptions::bucket_bytes)
  // Called after every repetition of a bucket with its samples so far; true ends the measurement.
  // Each bucket gets at least one repetition.
  std::function<bool(const std::vector<StageSeconds>& samples)> enough;
};

// Measures on a CPU the buckets into which DDP divides the gradients of `step`: each size once, the
// smallest first. A repetition begins with gradients that have just been written, and with unsent
// values that are in no cache. Copies of this rank's message stand for the messages of other ranks.
std::vector<HookPoint> probe_hook(const TrainingStep& step, const HookProbeOptions& options);

}  // namespace lockstep
