// Interface of compute costs: durations of layers, optimizer updates and streaming kernels on one
// device. Implementations are the roofline model (roofline_costs.hpp), a measured profile in front
// of a model (profile.hpp), and combinations of several sources (transformed_costs.hpp). Strategies
// ask only through this interface.
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

// Cost of one layer for one micro-batch; all times in seconds.
struct LayerCost {
  QueuedWork forward;
  QueuedWork backward;  // includes recomputation when the layer is checkpointed
  // The two parts of `backward`: gradients of weights, and all other work.
  QueuedWork weight_gradient, input_gradient;
  // Device seconds of forward and backward that are limited by memory bandwidth; for explanations.
  double memory_bound = 0;
  // Device seconds beyond the launch floors, limited by arithmetic and by memory bandwidth. An
  // overlapping collective slows these down (costs/interference.hpp).
  double arithmetic = 0, streaming = 0;
  std::string_view name{};       // of the step's layer; "" = unknown
  const Layer* layer = nullptr;  // the step's layer, if its exchanges are simulated; else null
};

struct OptimizerSpec;  // costs/optimizer.hpp

// A cost source. Const member functions may be called from several threads.
class ComputeCosts {
 public:
  virtual ~ComputeCosts() = default;
  // Cost of layer `index` of the step.
  virtual LayerCost layer(const TrainingStep& step, std::size_t index) const = 0;
  // Cost of an update of `elements` parameters in `tensors` tensors: a whole model, an FSDP shard,
  // a server's part.
  virtual QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                               int tensors) const = 0;
  // Cost of streaming `bytes` (read + written) through device memory in `launches` kernels: bucket
  // copies, casts, gradient clipping.
  virtual QueuedWork stream(double bytes, int launches) const = 0;
  // Cost of a communication hook on a bucket of `bytes` bytes: stages_of(settings.hook) stages,
  // with a collective between two stages. Empty = not measured.
  virtual std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const {
    (void)settings, (void)bytes;
    return {};
  }
};

}  // namespace lockstep
