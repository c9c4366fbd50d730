#include "strategies/common/replica.hpp"

#include <utility>

#include "strategies/common/optimizer_memory.hpp"

namespace lockstep {

Replica::Replica(TrainingStage& stage, std::vector<GradientTensor> gradients)
    : tensors(std::move(gradients)), adding(stage.costs.layers) {
  const Job& job = stage.job;
  for (const GradientTensor& tensor : tensors) {
    elements += tensor.elements;
    if (has_main_gradients(job.step.precision)) continue;  // added to in every micro-batch
    const QueuedWork sum = job.costs->stream(3 * tensor.elements * tensor.element_bytes, 1);
    QueuedWork& backward = adding[static_cast<std::size_t>(tensor.layer)].backward;
    backward = append(backward, sum);
    stage.always.add(sum, job.accumulation - 1);
  }
  alone = lay_out(stage.costs.layers, hook_places({}, stage.costs.layers.size()));
  alone_adding = lay_out(adding, hook_places({}, adding.size()));
  const int count = static_cast<int>(tensors.size());
  update.optimizer = job.costs->optimizer(job.optimizer, job.step.precision, elements, count);
  if (job.gradient_clipping > 0) {
    update.clips = true;
    update.norm = job.costs->stream(clipping_bytes(job.step.precision, elements),
                                    clipping_launches(elements, count));
  }
}

MemoryPlan replica_memory_plan(const Job& job) {
  MemoryPlan plan;
  plan.micro_batches = job.accumulation;
  plan.optimizer = optimizer_memory(job.optimizer, job.step.precision);
  return plan;
}

}  // namespace lockstep
