// What copying and updating costs on one device, by size: the bucket copies, shards and server
// updates of distributed training. Plain interface: no LibTorch in here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"

namespace lockstep {

struct StreamPoint {
  double bytes = 0;  // read and written together; or, of an update, 4 x its elements
  std::vector<double> seconds;
};

struct StreamProbeOptions {
  std::string device = "cpu";
  OptimizerSpec optimizer;
  std::vector<std::int64_t> elements;  // fp32 values in the tensor
  std::function<bool(const std::vector<double>& seconds)> enough;
};

struct StreamProbeResult {
  std::vector<StreamPoint> copies;   // one tensor into another
  std::vector<StreamPoint> updates;  // of one flat tensor
};

// Of memory that is in no cache, as a bucket or a shard is when its turn comes in a step.
StreamProbeResult probe_streams(const StreamProbeOptions& options);

}  // namespace lockstep
