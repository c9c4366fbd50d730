// Measures communication hooks on one device: their work on buckets of a model's gradients, stage
// by stage. Plain interface: no LibTorch in here.
#pragma once

#include <functional>
#include <vector>

#include "costs/hook_work.hpp"
#include "workload/step.hpp"

namespace lockstep {

// CPU seconds of each stage.
using StageSeconds = std::vector<double>;
struct HookPoint {
  double bytes = 0;                   // of the bucket's gradients
  std::vector<StageSeconds> samples;  // of every repetition
};

struct HookProbeOptions {
  HookSettings settings;
  std::vector<double> bucket_bytes;  // caps of DDP's buckets (DdpOptions::bucket_bytes)
  // Asked after every repetition of a bucket, with its samples so far; one at least is made.
  std::function<bool(const std::vector<StageSeconds>& samples)> enough;
};

// On CPUs. The buckets that DDP cuts the gradients of one backward pass into, of each size once;
// smaller ones first. A repetition begins with gradients that were just written and with kept
// errors that are in no cache. Other ranks' messages are this one's.
std::vector<HookPoint> probe_hook(const TrainingStep& step, const HookProbeOptions& options);

}  // namespace lockstep
