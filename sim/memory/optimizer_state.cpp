// Follows the order of allocations in PyTorch's optimizers. Foreach implementations allocate whole
// lists of tensors, for-loop implementations allocate for one tensor after the other, and a matrix
// rule (Muon) allocates several temporaries for one tensor.
#include "memory/optimizer_state.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

// The name under which a temporary appears in a log.
Subject update_of(const UpdatedTensor& tensor) {
  return tensor.name.empty() ? Subject{} : Subject{"update", tensor.name};
}

}  // namespace

void LoopUpdate::update(double elements, const Subject& subject) {
  const auto tensor = [&](double bytes_per_element) {
    return tape_.allocate(MemoryKind::temporaries, elements * bytes_per_element, subject);
  };
  const Tape::Block decayed = tensor(temporaries_.decayed), scratch = tensor(temporaries_.scratch);
  const Tape::Block kept = tensor(temporaries_.kept);
  tape_.free(scratch);
  tape_.free(std::exchange(kept_, kept));
  tape_.free(decayed);
}

void LoopUpdate::end() {
  tape_.free(std::exchange(kept_, CachingAllocator::nothing));
}

// torch.optim allocates all state of one parameter before the state of the next one (_init_group).
// State of more bytes per element than one tensor has consists of several tensors, for example
// Adam's two moments.
void allocate_optimizer_state(Tape& tape, std::span<const UpdatedTensor> tensors,
                              const OptimizerMemory& optimizer) {
  for (const UpdatedTensor& tensor : tensors) {
    double rest =
        tensor.other ? tensor.other->state_bytes_per_element : optimizer.state_bytes_per_element;
    for (; rest > 0; rest -= optimizer.state_element_bytes) {
      tape.allocate(MemoryKind::optimizer_state,
                    tensor.elements * std::min(rest, optimizer.state_element_bytes), {tensor.name});
    }
  }
}

// Three groups follow each other: lists of all tensors, single tensors, and tensors with a rule of
// their own. The lists of the last group live to the end of the update.
void play_update(Tape& tape, std::span<const UpdatedTensor> tensors,
                 const OptimizerMemory& optimizer) {
  std::vector<Tape::Block> temporaries, temporaries_of_others;
  for (const UpdatedTensor& tensor : tensors) {
    const double bytes = tensor.other ? tensor.other->temporary_bytes_per_element
                                      : optimizer.temporary_bytes_per_element;
    if (bytes <= 0) continue;
    (tensor.other ? temporaries_of_others : temporaries)
        .push_back(
            tape.allocate(MemoryKind::temporaries, tensor.elements * bytes, update_of(tensor)));
  }
  tape.free(temporaries);
  LoopUpdate updates(tape, optimizer.loop);
  for (const UpdatedTensor& tensor : tensors) {
    if (!tensor.other) updates.update(tensor.elements, update_of(tensor));
  }
  updates.end();
  for (const UpdatedTensor& tensor : tensors) {
    if (!tensor.other) continue;
    std::vector<Tape::Block> together;
    for (const double bytes : tensor.other->temporaries) {
      together.push_back(tape.allocate(MemoryKind::temporaries, bytes, update_of(tensor)));
    }
    tape.free(together);
  }
  tape.free(temporaries_of_others);
}

}  // namespace lockstep
