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
  // The two parts of `backward`: the gradients of weights, and all other work.
  QueuedWork weight_gradient, input_gradient;
  // Device seconds of the forward and backward kernels that memory bandwidth limits, launch floors
  // included; used in explanations.
  double memory_bound = 0;
  // Device seconds beyond the launch floors, by their limit: arithmetic, or memory bandwidth. An
  // overlapping collective slows them down (costs/interference.hpp).
  double arithmetic = 0, streaming = 0;
  std::string_view name{};       // name of the step's layer; "" = unknown
  const Layer* layer = nullptr;  // set only if the layer's exchanges are simulated
};

struct OptimizerSpec;  // costs/optimizer.hpp

// A cost source. Const member functions may be called from several threads.
class ComputeCosts {
 public:
  virtual ~ComputeCosts() = default;
  // Cost of layer `index` of the step.
  virtual LayerCost layer(const TrainingStep& step, std::size_t index) const = 0;
  // Cost of an update of `elements` parameters in `tensors` tensors, for example of a whole model,
  // an FSDP shard or the part of one parameter server.
  virtual QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                               int tensors) const = 0;
  // Cost of streaming `bytes` (read + written) through device memory in `launches` kernels, for
  // example bucket copies, casts or gradient clipping.
  virtual QueuedWork stream(double bytes, int launches) const = 0;
  // Cost of a communication hook on a bucket of `bytes` bytes: stages_of(settings.hook) stages; one
  // collective runs between each two stages. Empty = not measured.
  virtual std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const {
    (void)settings, (void)bytes;
    return {};
  }
};

}  // namespace lockstep
