// Costs of copying and updating flat tensors on one device, by size: the bucket copies, shards and
// server updates of distributed training. Plain interface: no LibTorch in here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"

namespace lockstep {

struct StreamPoint {
  std::int64_t elements = 0;    // fp32 values in the tensor
  std::vector<double> seconds;  // of every repetition
};

struct StreamProbeOptions {
  std::string device = "cpu";
  OptimizerSpec optimizer;
  std::vector<std::int64_t> elements;  // the sizes to measure
  // Asked after every repetition, with the times of this size so far; one at least is made.
  std::function<bool(const std::vector<double>& seconds)> enough;
};

struct StreamProbeResult {
  std::vector<StreamPoint> copies;   // one tensor into another
  std::vector<StreamPoint> updates;  // the optimizer's step of one tensor
};

// Measures memory that is in no cache, as a bucket or a shard is when its turn comes in a step.
// Throws OutOfDeviceMemory (layers.hpp) if the device has too little.
StreamProbeResult probe_streams(const StreamProbeOptions& options);

}  // namespace lockstep
