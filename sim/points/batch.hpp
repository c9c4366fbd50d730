// How one optimizer step's batch falls on GPUs and micro-batches.
#pragma once

#include <cstdint>

#include "scenario/scenario.hpp"

namespace lockstep {

// A step with more micro-batches is no training.
inline constexpr std::int64_t most_accumulation = 4096;

struct BatchSplit {
  std::int64_t global = 0, micro = 0;
  int accumulation = 1;
};

// Among the replicas of the model, each of so many GPUs. Throws std::invalid_argument with the reason when
// the batch does not divide.
BatchSplit split_batch(const BatchSpec& batch, int replicas, int replica_gpus = 1);

}  // namespace lockstep
