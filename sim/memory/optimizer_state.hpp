// Carries out the optimizer's allocations on a tape, tensor by tensor: state in the first update,
// temporaries in each update. Sizes per element come from the plan (memory_plan.hpp). Replicated
// and sharded model states both use these functions.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "memory/memory_plan.hpp"
#include "memory/tape.hpp"

namespace lockstep {

// A trainable tensor, or the share of a tensor that this rank updates.
struct UpdatedTensor {
  double elements = 0;
  std::string_view name{};              // "" = the log uses the moment's name
  const TensorUpdate* other = nullptr;  // set if this tensor has a rule of its own
};

// Allocates the state in the first update; it is never freed.
void allocate_optimizer_state(Tape& tape, std::span<const UpdatedTensor> tensors,
                              const OptimizerMemory& optimizer);
// Temporaries of tensors that are updated one after the other (for-loop implementations). The last
// temporary of a tensor lives until the next tensor has its own.
class LoopUpdate {
 public:
  LoopUpdate(Tape& tape, const LoopTemporaries& temporaries)
      : tape_(tape), temporaries_(temporaries) {}
  // Allocates and frees the temporaries of a tensor with this number of elements.
  void update(double elements, const Subject& subject);
  // Frees the last tensor's remaining temporary.
  void end();

 private:
  Tape& tape_;
  const LoopTemporaries& temporaries_;
  Tape::Block kept_ = CachingAllocator::nothing;
};

// Allocates and frees the temporaries of one update.
void play_update(Tape& tape, std::span<const UpdatedTensor> tensors,
                 const OptimizerMemory& optimizer);

}  // namespace lockstep
