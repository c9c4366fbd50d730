// ComputeCosts from the kernel model: every kernel of a layer priced on the machine's device and
// queued behind the host thread that dispatches it.
#pragma once

#include "costs/compute.hpp"
#include "costs/host.hpp"
#include "costs/kernel_model.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

class RooflineCosts final : public ComputeCosts {
 public:
  explicit RooflineCosts(const Machine& machine, const Framework& framework = {},
                         const KernelLaw& law = {});

  LayerCost layer(const TrainingStep& step, std::size_t index) const override;
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override;
  QueuedWork stream(double bytes, int launches) const override;

 private:
  // Adds what limits the kernels to `cost`.
  QueuedWork run(const std::vector<Kernel>& kernels, int element_bytes, double operator_seconds,
                 LayerCost& cost) const;
  QueuedWork orthogonalised(const std::vector<HiddenMatrix>& matrices, Precision precision) const;
  QueuedWork dispatched(double operator_seconds, int operators, int launches,
                        double device_seconds) const;

  Device device_;
  HostRates rates_;
  bool one_thread_;  // a CPU computes with the thread that dispatches
  KernelLaw law_;
};

}  // namespace lockstep
