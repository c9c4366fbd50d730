// Memory of the ranks of a job, one rank for each stage of its pipeline: the stage's part of the
// model, and the order of its work. Strategies answer Strategy::stage_memory() with it and add
// their own allocations. All bytes are of one GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "memory/step_memory.hpp"
#include "strategies/strategy.hpp"
#include "workload/joined_parts.hpp"

namespace lockstep {

struct StageMemory {
  Job job;                                  // its step: the layers that a rank of this stage holds
  std::shared_ptr<const JoinedParts> rank;  // the rank's parts of the model; null = no pipeline
  RankProgram program;  // with messages; of a shape with fewer micro-batches (settled_shape())
  PipelineHolding holding{};  // tensors that the pipeline's runtime keeps alive
  int stashed_weights = 0;    // older copies of the stage's parameters (PipeDream)
};

// The memory inputs of each stage; one entry without a pipeline.
std::vector<StageMemory> stage_memories(const Job& job);

// The memory of a rank that holds all parameters of its stage. Buffers of the mesh's communicators
// are added to the communicators in `plan`.
StepMemory replica_memory(const StageMemory& stage, MemoryPlan plan, const MemoryQuery& query);

// Buffers of the mesh's communicators, except the gradients'.
double mesh_communicator_bytes(const Job& job);

// The results of `memory` for a rank of each stage.
std::vector<MemoryUse> memory_of_stages(const Job& job,
                                        const std::function<MemoryUse(const StageMemory&)>& memory);
// The memory of a rank of each stage, if each rank holds all parameters of its stage. `plan` makes
// the plan of a stage from the stage's job.
std::vector<MemoryUse> replica_memory_of_stages(const Job& job, const MemoryQuery& query,
                                                const std::function<MemoryPlan(const Job&)>& plan);

}  // namespace lockstep
