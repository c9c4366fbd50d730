// Optimizer state and temporaries of an update, tensor by tensor.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "memory/memory_plan.hpp"
#include "memory/tape.hpp"

namespace lockstep {

// A trainable tensor, or the share of it that is updated here.
struct UpdatedTensor {
  double elements = 0;
  std::string_view name{};              // "" = the moment names it
  const TensorUpdate* other = nullptr;  // the rule of this tensor alone
};

// Born in the first update, and kept.
void allocate_optimizer_state(Tape& tape, std::span<const UpdatedTensor> tensors,
                              const OptimizerMemory& optimizer);
// Temporaries of tensors that are updated one after the other (the for-loop forms).
class LoopUpdate {
 public:
  LoopUpdate(Tape& tape, const LoopTemporaries& temporaries)
      : tape_(tape), temporaries_(temporaries) {}
  void update(double elements, const Subject& subject);
  void end();  // of the last tensor's

 private:
  Tape& tape_;
  const LoopTemporaries& temporaries_;
  Tape::Block kept_ = CachingAllocator::nothing;
};

// The temporaries of one update.
void play_update(Tape& tape, std::span<const UpdatedTensor> tensors,
                 const OptimizerMemory& optimizer);

}  // namespace lockstep
