// Joins the parts of the model that a rank holds, and plays the rank's program of the pipeline's
// schedule on the allocator (memory/step_memory.hpp). A schedule with fewer micro-batches that
// reaches the same steady state represents the whole step (settled_shape()).
#include "strategies/common/stage_memory.hpp"

#include <algorithm>

#include "strategies/common/gradients.hpp"
#include "strategies/common/mesh_groups.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/run_steps.hpp"

namespace lockstep {

std::vector<StageMemory> stage_memories(const Job& job) {
  if (!job.parts) return {{job, nullptr, {}}};
  const PipelineOptions& pipeline = job.parallel.pipeline;
  PipelineShape whole = pipeline_shape(job);
  // The activations of all token slices of a micro-batch are held at the same time, so the memory
  // computation plays whole micro-batches.
  whole.micro_batches = job.accumulation;
  whole.slices = 1;
  const PipelineShape shape =
      pipeline.return_outputs ? whole : settled_shape(pipeline.schedule, whole);
  const std::vector<RankProgram> programs = with_messages(
      pipeline.schedule, shape, programs_of(pipeline.schedule, shape), pipeline.keep_outputs);
  std::vector<StageMemory> stages;
  // A rank's parts are joined to one step; the rank's program refers to the parts as chunks.
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<int> numbers;
    for (int part = 0; part < shape.parts(); ++part) {
      if (place_of(pipeline.schedule, shape, part).rank == rank) numbers.push_back(part);
    }
    StageMemory& stage = stages.emplace_back();
    stage.rank =
        std::make_shared<const JoinedParts>(join(*job.parts, numbers, pipeline.keep_outputs));
    stage.program = programs[static_cast<std::size_t>(rank)];
    stage.holding.keep_outputs = pipeline.keep_outputs;
    stage.holding.return_outputs = pipeline.return_outputs;
    // Micro-batches that the shorter program leaves out still hold some tensors.
    stage.holding.further_micro_batches = std::max(0, whole.micro_batches - shape.micro_batches);
    stage.stashed_weights = stashed_weights(pipeline.schedule, whole, rank);
    stage.job = job;
    stage.job.parts = nullptr;
    stage.job.step = std::shared_ptr<const TrainingStep>(stage.rank, &stage.rank->step);
  }
  return stages;
}

// One communicator for each axis that has more than one rank.
double mesh_communicator_bytes(const Job& job) {
  const Mesh& mesh = job.mesh;
  double bytes = 0;
  if (mesh.tensor > 1) bytes += communicator_bytes(job.machine, axis_group(job, Axis::tensor));
  if (mesh.context > 1) bytes += communicator_bytes(job.machine, axis_group(job, Axis::context));
  if (mesh.expert > 1) bytes += communicator_bytes(job.machine, axis_group(job, Axis::expert));
  if (mesh.pipeline > 1) bytes += communicator_bytes(job.machine, neighbour_group(job));
  return bytes;
}

// Stashed weights are older versions of the parameters that PipeDream keeps for micro-batches in
// flight.
StepMemory replica_memory(const StageMemory& stage, MemoryPlan plan, const MemoryQuery& query) {
  const Job& job = stage.job;
  plan.communication_bytes += mesh_communicator_bytes(job);
  const int bytes = parameter_bytes(job.step->precision);
  for (const GradientTensor& tensor : gradient_tensors(*job.step, bytes)) {
    plan.replicated.hook_state_bytes += stage.stashed_weights * tensor.elements * bytes;
  }
  if (!stage.rank) return step_memory(*job.step, plan, job.machine.device, query);
  return pipeline_memory(*stage.rank, stage.program, stage.holding, plan, job.machine.device,
                         query);
}

std::vector<MemoryUse> memory_of_stages(
    const Job& job, const std::function<MemoryUse(const StageMemory&)>& memory) {
  std::vector<MemoryUse> stages;
  for (const StageMemory& stage : stage_memories(job)) stages.push_back(memory(stage));
  return stages;
}

std::vector<MemoryUse> replica_memory_of_stages(const Job& job, const MemoryQuery& query,
                                                const std::function<MemoryPlan(const Job&)>& plan) {
  return memory_of_stages(job, [&](const StageMemory& stage) {
    return memory_use(replica_memory(stage, plan(stage.job), query), job.machine.device);
  });
}

}  // namespace lockstep
