// The seam between "how long does this layer take" and everybody who asks: a measured profile, the
// roofline model, or one on top of the other.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "costs/cost.hpp"
#include "costs/hook_work.hpp"
#include "costs/host.hpp"
#include "hardware/machine.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct LayerCost {
  QueuedWork forward;
  QueuedWork backward;  // includes recomputation when the layer is checkpointed
  // The part of `backward` that is gradients of weights, and the rest of it.
  QueuedWork weight_gradient, input_gradient;
  // Device seconds of `forward.busy` + `backward.busy` limited by memory bandwidth; for
  // explanations.
  double memory_bound = 0;
  // Device seconds beyond the floors of the launches, by what limits them: what a collective that
  // runs beside slows down (costs/interference.hpp).
  double arithmetic = 0, streaming = 0;
  std::string_view name{};       // of the step's layer; "" = nobody said it
  const Layer* layer = nullptr;  // whose exchanges are laid out; null = it has none
};

struct OptimizerSpec;  // costs/optimizer.hpp

class ComputeCosts {
 public:
  virtual ~ComputeCosts() = default;
  virtual LayerCost layer(const TrainingStep& step, std::size_t index) const = 0;
  // Updating `elements` parameters held in `tensors` tensors (an FSDP shard, a server's part, a
  // model).
  virtual QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                               int tensors) const = 0;
  // Streaming `bytes` (read + written) through device memory in `launches` kernels: bucket copies,
  // casts, gradient clipping.
  virtual QueuedWork stream(double bytes, int launches) const = 0;
  // A communication hook's work on a bucket of `bytes`: stages_of(settings.hook) stages, with a
  // collective between two. Empty = not measured.
  virtual std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const {
    (void)settings, (void)bytes;
    return {};
  }
};

}  // namespace lockstep
