// The training step that every synchronous strategy shares: input, micro-batches, forward,
// backward, clipping, loss scaling, update, report. A strategy is a set of hooks on it, as
// torchtitan's parallelisms are on its train_step().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/common/step_parts.hpp"
#include "strategies/common/update.hpp"

namespace lockstep {

// The actions of one rank's host in one pass over the model: layers, hooks around them, and the
// exchanges of the mesh.
enum class Hook {
  layers,
  pre_forward,
  post_forward,
  pre_backward,
  post_backward,
  start_exchange,
  await_exchange
};
struct PassItem {
  Hook hook = Hook::layers;
  int unit = -1;                           // of a hook; of an exchange: which of those under way
  NamedWork work{};                        // of layers: all between two hooks
  const AxisExchange* exchange = nullptr;  // that starts, or that is waited for
};
struct Passes {
  std::vector<PassItem> forward, backward;
  // Backward in two parts: the gradients of inputs, and then those of weights. Only if the
  // pipeline's schedule distinguishes them.
  std::vector<PassItem> backward_input, backward_weight;
  int exchanges = 0;  // under way at the same time, at most
};

// Layers with common hooks; -1 = no such hooks. If several units begin at a layer, the first of the
// list is the outermost module.
struct HookedUnit {
  int first = -1,
      last = -1;          // its module runs these layers: pre_forward, post_forward, pre_backward
  int completed_by = -1;  // this layer's backward completes its gradients: post_backward
};
// For each layer, the units whose hooks are called around it, in order.
struct HookPlaces {
  std::vector<std::vector<int>> before_forward, after_forward, before_backward, after_backward;
};
HookPlaces hook_places(const std::vector<HookedUnit>& units, std::size_t layers);
Passes lay_out(const std::vector<LayerCost>& layers, const HookPlaces& hooks,
               bool splits_backward = false);

struct MicroBatch {
  int step = 0;
  bool first = true, last = true;  // of its step
};

// All hooks are optional. Hooks that return a Program may block the host.
class TrainingHooks {
 public:
  virtual ~TrainingHooks() = default;
  virtual const UpdateWork& update() const = 0;
  virtual const Passes& passes(const MicroBatch& batch) const = 0;
  // Whether only the exchanges of the layers are sent during the micro-batch.
  virtual bool is_quiet(const MicroBatch&) const { return false; }
  // Whether a transfer may still run at the end of a micro-batch; then each micro-batch is
  // simulated.
  virtual bool outlasts_micro_batches() const { return false; }
  virtual void begin_forward(const MicroBatch&) {}
  virtual Program pre_forward(int) { co_return; }
  virtual void post_forward(int) {}
  virtual void begin_backward(const MicroBatch&) {}
  virtual Program pre_backward(int) { co_return; }
  virtual Program post_backward(int) { co_return; }
  virtual Program end_backward() { co_return; }
  // All micro-batches of the step are over.
  virtual Program end_micro_batches() { co_return; }
  // The compute stream waits for one number of all ranks that hold a part of the model: the norm of
  // the gradients, or whether one of them is infinite.
  virtual void reduce_scalar() {}
  virtual Program after_update(int) { co_return; }
};

// Makes the hooks of one part of the model; a stage may have several parts.
using MakeHooks = std::function<std::unique_ptr<TrainingHooks>(TrainingContext&)>;

// `period`: number of steps after which the program repeats.
StrategyResult train(TrainingWorld& world, const MakeHooks& make_hooks, int period = 1);

// Ranks that hold a whole model each and are not synchronous.
struct Apart {
  MakeHooks make_hooks;
  std::function<Program(int rank, int step)> after_step;  // awaited before its next one
};
StrategyResult train_apart(const Job& job, const std::string& name,
                           const std::function<Apart(TrainingWorld&)>& make);

}  // namespace lockstep
