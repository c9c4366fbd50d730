// A rank that holds all parameters of its part of the model: its compute, update and memory,
// without communication. DDP, ZeRO, local SGD and gossip add their transfers to it.
#pragma once

#include <vector>

#include "memory/memory_plan.hpp"
#include "strategies/common/gradients.hpp"
#include "strategies/common/training_loop.hpp"

namespace lockstep {

struct Replica {
  // Counts the additions of later micro-batches in context.always.
  Replica(TrainingContext& context, std::vector<GradientTensor> gradients);

  std::vector<GradientTensor> tensors;
  double elements = 0;            // of all tensors
  std::vector<LayerCost> adding;  // the layers of a micro-batch that adds to existing gradients
  Passes alone, alone_adding;     // passes without hooks: of the first, and of later micro-batches
  UpdateWork update;              // of all parameters
};

// Memory of such a rank without communication: the strategy adds its buffers.
MemoryPlan replica_memory_plan(const Job& job);

}  // namespace lockstep
