// Lays out the passes of a whole model in two forms. The first micro-batch of a step allocates
// gradients. A later one also adds to existing gradients, which reads two tensors and writes one.
#include "strategies/common/replica.hpp"

#include <utility>

#include "strategies/common/update.hpp"

namespace lockstep {

Replica::Replica(TrainingContext& context, std::vector<GradientTensor> gradients)
    : tensors(std::move(gradients)), adding(context.costs.layers) {
  const Job& job = context.job;
  for (const GradientTensor& tensor : tensors) {
    elements += tensor.elements;
    // Every micro-batch adds to main gradients, so the layers' costs already include the addition.
    if (has_main_gradients(job.step->precision)) continue;
    const QueuedWork sum = job.costs->stream(3 * tensor.elements * tensor.element_bytes, 1);
    QueuedWork& backward = adding[static_cast<std::size_t>(tensor.layer)].backward;
    backward = append(backward, sum);
    QueuedWork& of_weights = adding[static_cast<std::size_t>(tensor.layer)].weight_gradient;
    of_weights = append(of_weights, sum);
    context.always.add(sum, job.passes() - 1);
  }
  const HookPlaces nowhere = hook_places({}, adding.size());
  alone = lay_out(context.costs.layers, nowhere, context.splits_backward());
  alone_adding = lay_out(adding, nowhere, context.splits_backward());
  const TensorShare all{elements, static_cast<int>(tensors.size())};
  update = update_work(job, all, all);
}

MemoryPlan replica_memory_plan(const Job& job) {
  MemoryPlan plan;
  plan.micro_batches = job.accumulation;
  plan.optimizer = optimizer_memory(job.optimizer, job.step->precision);
  plan.replicated.gradients_join_late =
      job.framework == FrameworkKind::nanotron && has_main_gradients(job.step->precision);
  return plan;
}

}  // namespace lockstep
