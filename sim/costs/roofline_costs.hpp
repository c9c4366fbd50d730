// ComputeCosts from the kernel model: every kernel of a layer is priced on the machine's device and
// queued behind the host thread that dispatches it. It answers for any model and device, so it is
// the base under measured profiles.
#pragma once

#include "costs/compute.hpp"
#include "costs/host.hpp"
#include "costs/kernel_model.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

// Costs of one machine with one framework. Keeps copies, so machine and framework may die.
class RooflineCosts final : public ComputeCosts {
 public:
  explicit RooflineCosts(const Machine& machine, const Framework& framework = {},
                         const KernelLaw& law = {});

  LayerCost layer(const TrainingStep& step, std::size_t index) const override;
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override;
  QueuedWork stream(double bytes, int launches) const override;

 private:
  // The work of the kernels in order. Adds their limits (arithmetic, streaming) and their parts of
  // backward to `cost`.
  QueuedWork run(const std::vector<Kernel>& kernels, int element_bytes, double operator_seconds,
                 LayerCost& cost) const;
  // The updates of Muon's matrices.
  QueuedWork orthogonalised(const std::vector<HiddenMatrix>& matrices, Precision precision) const;
  // Queued work; on a CPU, host and device times add up.
  QueuedWork dispatched(double operator_seconds, int operators, int launches,
                        double device_seconds) const;

  Device device_;
  HostRates rates_;
  bool one_thread_;  // a CPU computes with the thread that dispatches
  KernelLaw law_;
};

}  // namespace lockstep
