// The actions of FSDP's host at the hooks around a unit, in program order. They depend only on the
// program, never on time. Therefore the simulation of a step (fsdp1.cpp, fsdp2.cpp), its memory
// (sharded_state.cpp) and its lower bound (least_communication.cpp) all play the same list. FSDP1
// follows facts 29-45 and FSDP2 facts 46-59 of docs/facts.md.
//
// Example: FSDP1, full_shard, backward_prefetch pre; forward runs the units 1, 2, 3.
//   pre_forward(2)    unshard 2, use 2          pre_backward(2)   use 2, unshard 1 (prefetch)
//   post_forward(2)   reshard 2                 post_backward(2)  join 2, reshard 2, reduce 2
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "strategies/common/training_loop.hpp"
#include "strategies/fsdp/layout.hpp"

namespace lockstep {

enum class FsdpDeed {
  unshard,     // request the gathered parameters
  use,         // wait for the parameters, because the unit computes next
  join,        // FSDP1: the parameters' gradients become one flat gradient [40]
  accumulate,  // add to the unsharded gradients of earlier micro-batches [45, 58]
  keep,        // store the unsharded gradients for the next micro-batch
  reshard,     // free the gathered parameters
  reduce,      // reduce the gradients over the ranks
};

struct FsdpAction {
  FsdpDeed deed = FsdpDeed::use;
  int unit = 0;
  bool backward = false;
  // unshard: the parameters are not gathered yet; keep: no gradients are stored yet.
  bool fresh = true;
  // FSDP1's rate limiter [34]. unshard: the host first waits until the oldest unit in the limiter's
  // queue is no longer used, and removes it. reshard: the unit enters the queue.
  bool limited = false;
};

// The places of the units' hooks, before and after layers.
HookPlaces fsdp_hooks(const FsdpLayout& layout, const TrainingStep& step);

// Stores the state of all units (gathered, prefetched) and returns the actions of each hook.
// REQUIRES: hooks are called in the order of the passes.
class FsdpOrder {
 public:
  FsdpOrder(const FsdpLayout& layout, const HookPlaces& hooks);

  // `reduces` is true if this micro-batch reduces its gradients.
  void begin_forward(bool first_micro_batch, bool reduces);
  // The actions of a hook; the span is valid until the next call.
  using Actions = std::span<const FsdpAction>;
  Actions pre_forward(int unit);
  Actions post_forward(int unit);
  Actions pre_backward(int unit);
  Actions post_backward(int unit);
  // The actions after all micro-batches of a pipeline's step; none without a pipeline.
  Actions end_micro_batches();

 private:
  struct Unit {
    bool trains = true;
    bool frees_after_forward = false;
    int next = -1;  // unit whose forward begins directly after this one's
    // Unit whose forward ends directly before this one's, so that backward comes to it next.
    int previous = -1;
    bool gathered = false, prefetched = false, used = false, needed_in_backward = false;
    bool kept = false;  // whether it has gradients from earlier micro-batches of a pipeline
  };
  Unit& of(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  bool version_two() const { return options_.version == 2; }
  void unshard(int unit, bool backward);
  void use(int unit, bool backward);
  void prefetch(int unit, bool backward);
  void reshard(int unit, bool backward);

  FsdpOptions options_;
  bool sharded_, keeps_parameters_, once_a_step_;
  // Units in the order in which backward completes their gradients.
  std::vector<int> backward_order_;
  std::vector<Unit> units_;
  std::size_t in_flight_ = 0;  // number of units in the rate limiter's queue
  bool first_micro_batch_ = true, reduces_ = true;
  std::vector<FsdpAction> actions_;
};

}  // namespace lockstep
