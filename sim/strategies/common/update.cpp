// Computes the costs of optimizer and clipping as streams through device memory (fact 137): the
// device's time is bytes / bandwidth, and the number of launches determines the host's time. Muon's
// matrices have individual costs (costs/muon.hpp).
#include "strategies/common/update.hpp"

namespace lockstep {

QueuedWork clipping_work(const Job& job, const TensorShare& share) {
  return job.costs->stream(clipping_bytes(job.step->precision, share.elements),
                           clipping_launches(share.elements, share.tensors));
}

QueuedWork optimizer_work(const Job& job, const TensorShare& share) {
  return job.costs->optimizer(job.optimizer, job.step->precision, share.elements, share.tensors);
}

UpdateWork update_work(const Job& job, const TensorShare& updated, const TensorShare& normed) {
  UpdateWork work;
  work.optimizer = optimizer_work(job, updated);
  work.clips = job.gradient_clipping > 0;
  if (work.clips) work.norm = clipping_work(job, normed);
  return work;
}

OptimizerMemory optimizer_memory(const OptimizerSpec& optimizer, Precision precision) {
  // Tensors that Muon does not treat as matrices have the optimizer's usual memory; each matrix has
  // its own entry.
  OptimizerSpec rest = optimizer;
  rest.matrices.clear();
  rest.elements = 0;
  OptimizerMemory memory{optimizer_state_bytes(rest, precision),
                         optimizer_temporary_bytes(rest, precision), muon_sizes(precision).state,
                         optimizer_loop_temporaries(rest, precision)};
  const MatrixMemory each = matrix_memory(precision);
  for (const HiddenMatrix& matrix : optimizer.matrices) {
    memory.others.push_back({matrix.tensor, each.state_bytes, each.temporary_bytes,
                             muon_temporaries(matrix, muon_sizes(precision))});
  }
  return memory;
}

}  // namespace lockstep
