// Memory of the ranks of a job, one for each stage of its pipeline: its part of the model, and the
// order of its work. Used to answer Strategy::stage_memory(). A strategy adds its own allocations.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "memory/step_memory.hpp"
#include "strategies/strategy.hpp"
#include "workload/joined_parts.hpp"

namespace lockstep {

struct StageMemory {
  Job job;                                  // whose step is what a rank of this stage holds
  std::shared_ptr<const JoinedParts> rank;  // null = there is no pipeline
  RankProgram program;                      // with messages, of a settled shape
  PipelineHolding holding{};
  int stashed_weights = 0;  // copies of the stage's parameters besides the newest
};

// One for each stage.
std::vector<StageMemory> stage_memories(const Job& job);

// The memory of a rank that holds all parameters of its stage. Communicators of the mesh are added
// to those of the plan.
StepMemory replica_memory(const StageMemory& stage, MemoryPlan plan, const MemoryQuery& query);

// Buffers of the mesh's communicators, except the gradients'.
double mesh_communicator_bytes(const Job& job);

// Calls `memory` for each stage's rank.
std::vector<MemoryUse> memory_of_stages(const Job& job,
                                        const std::function<MemoryUse(const StageMemory&)>& memory);
// The same if each rank holds all parameters of its stage.
std::vector<MemoryUse> replica_memory_of_stages(const Job& job, const MemoryQuery& query,
                                                const std::function<MemoryPlan(const Job&)>& plan);

}  // namespace lockstep
