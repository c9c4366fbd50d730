// ComputeCosts from the kernel model: every kernel of a layer takes its modelled time on the
// machine's device, and is queued behind the host thread that dispatches it. This source answers
// for any model and device, so measured profiles use it as their fallback.
#pragma once

#include "costs/compute.hpp"
#include "costs/host.hpp"
#include "costs/kernel_model.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

// Costs of one machine with one framework. The object holds copies, so machine and framework may be
// destroyed.
class RooflineCosts final : public ComputeCosts {
 public:
  explicit RooflineCosts(const Machine& machine, const Framework& framework = {},
                         const KernelLaw& law = {});

  LayerCost layer(const TrainingStep& step, std::size_t index) const override;
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override;
  QueuedWork stream(double bytes, int launches) const override;

 private:
  // The work of the kernels in order. Adds their seconds by limit (arithmetic, streaming) and by
  // part of backward to `cost`.
  QueuedWork run(const std::vector<Kernel>& kernels, int element_bytes, double operator_seconds,
                 LayerCost& cost) const;
  // The updates of Muon's matrices.
  QueuedWork orthogonalised(const std::vector<HiddenMatrix>& matrices, Precision precision) const;
  // Queued work. On a CPU, host and device times add up.
  QueuedWork dispatched(double operator_seconds, int operators, int launches,
                        double device_seconds) const;

  Device device_;
  HostRates rates_;
  bool one_thread_;  // a CPU dispatches and computes with the same thread
  KernelLaw law_;
};

}  // namespace lockstep
