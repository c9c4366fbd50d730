// The order of allocations in PyTorch's optimizers: whole lists of tensors, then tensors by themselves.
#include "memory/optimizer_state.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

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

// torch.optim makes the state of one parameter after the other (_init_group).
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
