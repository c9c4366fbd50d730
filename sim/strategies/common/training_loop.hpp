// The training step that all strategies except parameter servers share: input, micro-batches,
// forward, backward, clipping, loss scaling, update, report. A strategy is a set of hooks
// (TrainingHooks) that the loop calls, as torchtitan's parallelisms are around its train_step(). To
// simulate a strategy, make a TrainingWorld and call train() with a function that makes the hooks.
//
// One micro-batch with two units (U0 = layers 0 and 1, U1 = layers 2 and 3), without a pipeline:
//   begin_forward  pre(U0) |0|1| post(U0) pre(U1) |2|3| post(U1)
//   begin_backward pre(U1) |3|2| post(U1) pre(U0) |1|0| post(U0)  end_backward
// Within a line, "pre" and "post" stand for pre_forward and post_forward, or for pre_backward and
// post_backward.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/common/step_parts.hpp"
#include "strategies/common/update.hpp"

namespace lockstep {

// The kinds of actions of a rank's host in a pass over the model: layers, hooks around them, and
// the exchanges of the mesh (tensor, context and expert parallelism).
enum class Hook {
  layers,
  pre_forward,
  post_forward,
  pre_backward,
  post_backward,
  start_exchange,
  await_exchange
};
// One action. All layers between two other actions are one item.
struct PassItem {
  Hook hook = Hook::layers;
  int unit = -1;     // for a hook: its unit; for an exchange: its slot (Passes)
  NamedWork work{};  // for layers: their work together
  const AxisExchange* exchange = nullptr;  // the exchange that starts or is awaited
};
// The passes of a micro-batch over a part of the model.
struct Passes {
  std::vector<PassItem> forward, backward;
  // Backward in two parts: first the gradients of inputs, then the gradients of weights. Empty
  // unless the pipeline's schedule has them as two actions.
  std::vector<PassItem> backward_input, backward_weight;
  int exchanges = 0;  // number of slots: the largest number of exchanges under way at the same time
};

// Consecutive layers with common hooks. The value -1 means that the unit does not have these hooks.
// If several units begin at the same layer, the first one of the list is the outermost module.
struct HookedUnit {
  // Layers of the unit's module: pre_forward comes before the forward of layer `first`,
  // post_forward after the forward of layer `last`, pre_backward before the backward of layer
  // `last`.
  int first = -1, last = -1;
  // post_backward comes after the backward of this layer, which completes the unit's gradients.
  int completed_by = -1;
};
// By layer: the units whose hooks are called before or after the layer, in order.
struct HookPlaces {
  std::vector<std::vector<int>> before_forward, after_forward, before_backward, after_backward;
};
// The places of the units' hooks in a model of `layers` layers.
HookPlaces hook_places(const std::vector<HookedUnit>& units, std::size_t layers);
// The passes over `layers` with these hooks. If `splits_backward` is true, backward is also laid
// out in two parts. The passes refer to exchanges in the step of `layers`, which must outlive the
// passes.
Passes lay_out(const std::vector<LayerCost>& layers, const HookPlaces& hooks,
               bool splits_backward = false);

// A micro-batch from the point of view of hooks.
struct MicroBatch {
  int step = 0;                    // optimizer step, from 0
  bool first = true, last = true;  // whether it is the first or the last of its step
};

// The actions of a strategy around the layers of one part of the model. Hooks issue work through
// the TrainingContext for which they were made, in the order of the host thread. A hook with an
// empty default is optional. A hook that returns a Program may block the host. Parameters of type
// int are units, except the step in after_update().
class TrainingHooks {
 public:
  virtual ~TrainingHooks() = default;
  // The update at the end of each step. The reference must be valid as long as the hooks exist.
  virtual const UpdateWork& update() const = 0;
  // The passes of this micro-batch. The reference must be valid as long as the hooks exist, and the
  // passes must not change.
  virtual const Passes& passes(const MicroBatch& batch) const = 0;
  // Whether the micro-batch sends nothing but the exchanges of its layers.
  virtual bool is_quiet(const MicroBatch&) const { return false; }
  // Whether a transfer may still run at the end of a micro-batch. If so, every micro-batch is
  // simulated.
  virtual bool outlasts_micro_batches() const { return false; }
  virtual void begin_forward(const MicroBatch&) {}
  virtual Program pre_forward(int) { co_return; }
  virtual void post_forward(int) {}
  // In a pipeline, called before each of the two parts of a divided backward, and a second time for
  // the last micro-batch, before end_backward().
  virtual void begin_backward(const MicroBatch&) {}
  virtual Program pre_backward(int) { co_return; }
  virtual Program post_backward(int) { co_return; }
  // Called when the micro-batch's backward has been issued; in a pipeline, for the last micro-batch
  // only when the whole program of the stage has been issued. Waits for the reductions that the
  // update needs.
  virtual Program end_backward() { co_return; }
  // Called when all micro-batches of the step have been issued; the update comes next.
  virtual Program end_micro_batches() { co_return; }
  // Issues the reduction of one number over all ranks that hold a share of this part's state, and
  // makes the compute stream wait for the result. The number is the norm of the gradients, or a
  // flag that shows whether any gradient is infinite.
  virtual void reduce_scalar() {}
  // Called when the update of an optimizer step has been issued; steps count from 0.
  virtual Program after_update(int) { co_return; }
};

// Makes the hooks of one part of the model; a stage may have several parts.
using MakeHooks = std::function<std::unique_ptr<TrainingHooks>(TrainingContext&)>;

// Simulates the job of the world. `period` is the number of steps after which the program repeats.
StrategyResult train(TrainingWorld& world, const MakeHooks& make_hooks, int period = 1);

// A strategy in which each rank holds a whole model and the ranks have no common step.
struct Apart {
  MakeHooks make_hooks;
  // Awaited at the end of a rank's step, before the rank begins its next one.
  std::function<Program(int rank, int step)> after_step;
};
// Simulates ranks that have no common step. `make` receives the world, in which each rank is a
// stage; run_apart() counts the steps. `name` is the name of the rank group, for an observer.
StrategyResult train_apart(const Job& job, const std::string& name,
                           const std::function<Apart(TrainingWorld&)>& make);

}  // namespace lockstep
