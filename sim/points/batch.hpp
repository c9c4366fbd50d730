// Division of an optimizer step's batch among replicas and micro-batches. Used by expand()
// (points.hpp) for every point, by interval.cpp for the GPU count of an anchor, and by the
// questions `recommend` and `cluster`.
#pragma once

#include <cstdint>

#include "scenario/scenario.hpp"

namespace lockstep {

// The largest number of micro-batches of one step; split_batch() refuses more. Real training uses
// far fewer.
inline constexpr std::int64_t most_accumulation = 4096;

//    global = micro * accumulation * replicas
struct BatchSplit {
  std::int64_t global = 0, micro = 0;  // samples: per optimizer step; per micro-batch and replica
  int accumulation = 1;                // micro-batches per optimizer step
};

// Splits `batch` among `replicas` replicas of the model. `replica_gpus`, the GPUs of one replica,
// only selects the word "GPU" or "replica" in messages. Throws std::invalid_argument with a message
// for the user if the batch does not divide evenly, its fields contradict each other, or there are
// more than most_accumulation micro-batches.
BatchSplit split_batch(const BatchSpec& batch, int replicas, int replica_gpus = 1);

}  // namespace lockstep
