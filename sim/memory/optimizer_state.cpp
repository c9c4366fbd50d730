// Follows the order of allocations in PyTorch's optimizers. Foreach implementations allocate whole
// lists of tensors, for-loop implementations allocate for one tensor after the other, and a matrix
// rule (Muon) allocates several temporaries for one tensor.
#include "memory/optimizer_state.hpp"

#include <algorithm>

namespace lockstep {

namespace {

// The name under which a temporary appears in a log.
Subject update_of(const UpdatedTensor& tensor) {
  return tensor.name.empty() ? Subject{} : Subject{"update", tensor.name};
}

}  // namespace

// State of more than 4 bytes per element consists of several fp32 tensors (Adam's two moments, a
// master copy). They are allocated as lists: the first one of all tensors, then the second one of
// all tensors.
void allocate_optimizer_state(Tape& tape, std::span<const UpdatedTensor> tensors,
                              const OptimizerMemory& optimizer) {
  const auto state_of = [&](const UpdatedTensor& tensor) {
    return tensor.other ? tensor.other->state_bytes_per_element : optimizer.state_bytes_per_element;
  };
  double most = optimizer.state_bytes_per_element;
  for (const UpdatedTensor& tensor : tensors) most = std::max(most, state_of(tensor));
  for (double listed = 0; listed < most; listed += 4) {
    for (const UpdatedTensor& tensor : tensors) {
      const double rest = state_of(tensor) - listed;
      if (rest <= 0) continue;
      tape.allocate(MemoryKind::optimizer_state, tensor.elements * std::min(rest, 4.0),
                    {tensor.name});
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
  for (const UpdatedTensor& tensor : tensors) {
    const double bytes = optimizer.largest_temporary_bytes_per_element;
    if (tensor.other || bytes <= 0) continue;
    tape.free(tape.allocate(MemoryKind::temporaries, tensor.elements * bytes, update_of(tensor)));
  }
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
