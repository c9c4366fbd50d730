// The memory of a job's ranks, for one rank of each stage of its pipeline. It depends on the
// stage's part of the model and on the order of the stage's work. Strategies implement
// Strategy::stage_memory() with it and add their own allocations. All bytes are of one GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "memory/step_memory.hpp"
#include "strategies/strategy.hpp"
#include "workload/joined_parts.hpp"

namespace lockstep {

struct StageMemory {
  Job job;  // its step has the layers that a rank of this stage holds
  std::shared_ptr<const JoinedParts> rank;  // the rank's parts of the model; null = no pipeline
  RankProgram program;        // with messages; may have fewer micro-batches (settled_shape())
  PipelineHolding holding{};  // tensors that the pipeline's runtime holds
  int stashed_weights = 0;    // number of older copies of the stage's parameters (PipeDream)
};

// The inputs of the memory computation, by stage; one entry without a pipeline.
std::vector<StageMemory> stage_memories(const Job& job);

// The memory of a rank that holds all parameters of its stage. Adds the buffers of the mesh's
// communicators to the plan's buffers.
StepMemory replica_memory(const StageMemory& stage, MemoryPlan plan, const MemoryQuery& query);

// Bytes of the buffers of the mesh's communicators, except communicators for gradients.
double mesh_communicator_bytes(const Job& job);

// Calls `memory` for a rank of each stage. Returns the results by stage.
std::vector<MemoryUse> memory_of_stages(const Job& job,
                                        const std::function<MemoryUse(const StageMemory&)>& memory);
// The memory of a rank of each stage, if each rank holds all parameters of its stage. `plan` makes
// the memory plan of a stage from the stage's job.
std::vector<MemoryUse> replica_memory_of_stages(const Job& job, const MemoryQuery& query,
                                                const std::function<MemoryPlan(const Job&)>& plan);

}  // namespace lockstep
