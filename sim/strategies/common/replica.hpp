// A rank that holds the whole model: its compute, update and memory. Used by DDP, ZeRO, local SGD
// and gossip.
#pragma once

#include <vector>

#include "memory/memory_plan.hpp"
#include "strategies/common/gradients.hpp"
#include "strategies/common/training_loop.hpp"

namespace lockstep {

struct Replica {
  // Adds the accumulation of later micro-batches to the context's work.
  Replica(TrainingContext& context, std::vector<GradientTensor> gradients);

  std::vector<GradientTensor> tensors;
  double elements = 0;            // of all tensors
  std::vector<LayerCost> adding;  // the job's layers when backward adds to gradients that are there
  Passes alone, alone_adding;     // without hooks
  UpdateWork update;
};

MemoryPlan replica_memory_plan(const Job& job);

}  // namespace lockstep
