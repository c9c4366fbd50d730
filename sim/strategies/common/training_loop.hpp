// The training step that every synchronous strategy shares: input, micro-batches, forward, backward,
// clipping, loss scaling, update, report. A strategy is a set of hooks on it, as torchtitan's
// parallelisms are on its train_step().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/common/step_parts.hpp"
#include "strategies/common/update.hpp"

namespace lockstep {

// What one rank's host does in one pass over the model: layers, hooks around them, and the exchanges of
// the mesh.
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
  // Backward in two parts: the gradients of inputs, and then those of weights. Only where the pipeline's
  // schedule tells them apart.
  std::vector<PassItem> backward_input, backward_weight;
  int exchanges = 0;  // under way at the same time, at most
};

// Layers that are hooked together; -1 = no such hooks. Where several begin, the first of the list
// is the outermost module.
struct HookedUnit {
  int first = -1,
      last = -1;          // its module runs these layers: pre_forward, post_forward, pre_backward
  int completed_by = -1;  // this layer's backward completes its gradients: post_backward
};
// Around each layer, the units whose hooks are called there, in that order.
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

// A program may let the host block; none of them has to be there.
class TrainingHooks {
 public:
  virtual ~TrainingHooks() = default;
  virtual const UpdateWork& update() const = 0;
  virtual const Passes& passes(const MicroBatch& batch) const = 0;
  // Whether nothing but the exchanges of the layers is sent while the micro-batch is computed.
  virtual bool is_quiet(const MicroBatch&) const { return false; }
  // Whether a transfer may still run when a micro-batch has ended: then each one is simulated.
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
  // the gradients, whether one of them is infinite.
  virtual void reduce_scalar() {}
  virtual Program after_update(int) { co_return; }
};

// The hooks of one part of the model; several parts may be on one stage.
using MakeHooks = std::function<std::unique_ptr<TrainingHooks>(TrainingContext&)>;

// `period`: steps after which the program repeats itself.
StrategyResult train(TrainingWorld& world, const MakeHooks& make_hooks, int period = 1);

// Ranks that hold a whole model each and need not keep step. A rank is a stage of their world.
struct Apart {
  MakeHooks make_hooks;
  std::function<Program(int rank, int step)> after_step;  // awaited before its next one
};
StrategyResult train_apart(const Job& job, const std::string& name,
                           const std::function<Apart(TrainingWorld&)>& make);

}  // namespace lockstep
