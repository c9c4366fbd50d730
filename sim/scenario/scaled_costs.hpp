// ComputeCosts times constant factors: what an anchor found out about the user's hardware.
#pragma once

#include <algorithm>
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
    cost.memory_bound *= device_;
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return scaled(inner_->optimizer(optimizer, precision, elements, tensors));
  }
  QueuedWork stream(double bytes, int launches) const override {
    return scaled(inner_->stream(bytes, launches));
  }
  bool waits_for_each_micro_batch() const override { return inner_->waits_for_each_micro_batch(); }

 private:
  // span is a sum of some host and some device seconds; the split is not kept, so it is bounded
  // from both sides and taken where the share of host time puts it.
  QueuedWork scaled(const QueuedWork& work) const {
    const double device_part = work.busy * device_;
    const double lead = std::max(0.0, work.span - work.busy);  // host time before the device starts
    return {work.host * host_, device_part,
            std::max(device_part + lead * host_, work.host * host_)};
  }

  std::shared_ptr<const ComputeCosts> inner_;
  double device_, host_;
};

}  // namespace lockstep
