// ComputeCosts times constant factors: what an anchor found out about the user's hardware.
#pragma once

#include <memory>

#include "costs/compute.hpp"

namespace lockstep {

class ScaledCosts final : public ComputeCosts {
 public:
  ScaledCosts(std::shared_ptr<const ComputeCosts> inner, double device, double host)
      : inner_(std::move(inner)), device_(device), host_(host) {}

  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = inner_->layer(step, index);
    cost.forward = scaled(cost.forward);
    cost.backward = scaled(cost.backward);
    for (double* part : {&cost.memory_bound, &cost.arithmetic, &cost.streaming}) *part *= device_;
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return scaled(inner_->optimizer(optimizer, precision, elements, tensors));
  }
  QueuedWork stream(double bytes, int launches) const override {
    return scaled(inner_->stream(bytes, launches));
  }
  FrameworkKind framework() const override { return inner_->framework(); }

 private:
  QueuedWork scaled(const QueuedWork& work) const { return lockstep::scaled(work, device_, host_); }

  std::shared_ptr<const ComputeCosts> inner_;
  double device_, host_;
};

}  // namespace lockstep
