// What FSDP's host does at the hooks around a unit, in program order. It depends on the program
// alone, never on time: the simulation of a step (fsdp1.cpp, fsdp2.cpp) and its memory
// (sharded_state.cpp) carry out the same list. FSDP1: facts 29-45, FSDP2: facts 46-59 of
// docs/strategies.md.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "strategies/common/training_loop.hpp"
#include "strategies/fsdp/layout.hpp"

namespace lockstep {

enum class FsdpDeed {
  unshard,     // ask for the gathered parameters
  use,         // the parameters must be there for what is computed next
  join,        // FSDP1: the parameters' gradients become one flat gradient [40]
  accumulate,  // add to the unsharded gradients of earlier micro-batches [45, 58]
  keep,        // keep the unsharded gradients for the next micro-batch
  reshard,     // give the gathered parameters back
  reduce,      // reduce the gradients over the ranks
};

struct FsdpAction {
  FsdpDeed deed = FsdpDeed::use;
  int unit = 0;
  bool backward = false;
  bool fresh = true;  // unshard: the parameters are not there yet; keep: no gradients are kept yet
  // unshard: first the host waits until the oldest unit in the rate limiter's queue is out of use
  // and takes it out; reshard: the unit enters the queue [34].
  bool limited = false;
};

// Which hooks are called before and after each layer.
HookPlaces fsdp_hooks(const FsdpLayout& layout, const TrainingStep& step);

class FsdpOrder {
 public:
  FsdpOrder(const FsdpLayout& layout, const HookPlaces& hooks);

  // `reduces`: gradients are reduced in this micro-batch.
  void begin_forward(bool first_micro_batch, bool reduces);
  // What follows from a hook; valid until the next one.
  using Actions = std::span<const FsdpAction>;
  Actions pre_forward(int unit);
  Actions post_forward(int unit);
  Actions pre_backward(int unit);
  Actions post_backward(int unit);
  // In a pipeline: what follows when all micro-batches of the step are over.
  Actions end_micro_batches();

 private:
  struct Unit {
    bool trains = true;
    bool frees_after_forward = false;
    int next = -1;      // unit whose forward begins after this one's
    int previous = -1;  // unit whose forward ends before this one's: backward's next
    bool gathered = false, prefetched = false, used = false, needed_in_backward = false;
    bool kept = false;  // gradients, from earlier micro-batches of a pipeline
  };
  Unit& of(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  bool version_two() const { return options_.version == 2; }
  void unshard(int unit, bool backward);
  void use(int unit, bool backward);
  void prefetch(int unit, bool backward);
  void reshard(int unit, bool backward);

  FsdpOptions options_;
  bool sharded_, keeps_parameters_, once_a_step_;
  std::vector<int> backward_order_;  // of the units
  std::vector<Unit> units_;
  std::size_t in_flight_ = 0;  // units in the rate limiter's queue
  bool first_micro_batch_ = true, reduces_ = true;
  std::vector<FsdpAction> actions_;
};

}  // namespace lockstep
