// The training step that every synchronous strategy shares: input, micro-batches, forward, backward,
// clipping, loss scaling, update, report. A strategy is a set of hooks on it, as torchtitan's
// parallelisms are on its train_step().
#pragma once

#include <string>
#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/common/step_parts.hpp"
#include "strategies/common/update.hpp"

namespace lockstep {

// What one rank's host does in one pass over the model: layers, and hooks around them.
enum class Hook { layers, pre_forward, post_forward, pre_backward, post_backward };
struct PassItem {
  Hook hook = Hook::layers;
  int unit = -1;   // of a hook
  NamedWork work;  // of layers: all between two hooks
};
struct Passes {
  std::vector<PassItem> forward, backward;
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
Passes lay_out(const std::vector<LayerCost>& layers, const HookPlaces& hooks);

struct MicroBatch {
  int step = 0;
  bool first = true, last = true;  // of its step
};

// A program may let the host block; none of them has to be there.
class TrainingHooks {
 public:
  virtual ~TrainingHooks() = default;
  virtual const Passes& passes(const MicroBatch& batch) const = 0;
  virtual void begin_forward(const MicroBatch&) {}
  virtual Program pre_forward(int) { co_return; }
  virtual void post_forward(int) {}
  virtual Program pre_backward(int) { co_return; }
  virtual Program post_backward(int) { co_return; }
  virtual Program end_backward() { co_return; }
  // The compute stream waits for one number of all ranks that hold a part of the model: the norm of
  // the gradients, whether one of them is infinite.
  virtual void reduce_scalar() {}
  virtual Program after_update(int) { co_return; }
};

// `period`: steps after which the program repeats itself.
StrategyResult train(TrainingContext& context, TrainingHooks& hooks, const UpdateWork& update,
                     int period = 1);

}  // namespace lockstep
