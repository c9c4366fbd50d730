// Measures copies and updates of flat tensors on one device by size, for the bucket copies, shards
// and server updates of distributed training. Includes no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"

namespace lockstep {

struct StreamPoint {
  std::int64_t elements = 0;    // fp32 values in the tensor
  std::vector<double> seconds;  // one for every repetition
};

struct StreamProbeOptions {
  std::string device = "cpu";
  OptimizerSpec optimizer;
  std::vector<std::int64_t> elements;  // the sizes to measure
  // Called after every repetition with the times of this size so far; true ends the measurement.
  // Each size gets at least one repetition.
  std::function<bool(const std::vector<double>& seconds)> enough;
};

struct StreamProbeResult {
  std::vector<StreamPoint> copies;   // copies of one tensor into another
  std::vector<StreamPoint> updates;  // optimizer steps of one tensor
};

// Measures on data that is in no cache, like a bucket or a shard that is used once per step. Throws
// OutOfDeviceMemory (layers.hpp) if the device has too little memory.
StreamProbeResult probe_streams(const StreamProbeOptions& options);

}  // namespace lockstep
