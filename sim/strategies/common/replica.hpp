// A rank that holds all parameters of its part of the model: its compute, update and memory,
// without communication. DDP, ZeRO, local SGD and gossip add their transfers.
#pragma once

#include <vector>

#include "memory/memory_plan.hpp"
#include "strategies/common/gradients.hpp"
#include "strategies/common/training_loop.hpp"

namespace lockstep {

struct Replica {
  // Adds to context.always the sums that later micro-batches make.
  Replica(TrainingContext& context, std::vector<GradientTensor> gradients);

  std::vector<GradientTensor> tensors;
  double elements = 0;  // of all tensors together
  // Layers of a micro-batch that adds its gradients to existing ones.
  std::vector<LayerCost> adding;
  Passes alone, alone_adding;  // passes without hooks: of the first micro-batch, of later ones
  UpdateWork update;           // of all parameters
};

// The memory plan of such a rank without communication; the strategy adds its buffers.
MemoryPlan replica_memory_plan(const Job& job);

}  // namespace lockstep
