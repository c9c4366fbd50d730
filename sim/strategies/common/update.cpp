// The optimizer and clipping as streams through device memory.
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

}  // namespace lockstep
