#include "memory/step_memory.hpp"

#include <algorithm>
#include <cmath>

#include "memory/replicated.hpp"
#include "memory/step_player.hpp"

namespace lockstep {

bool is_host(const Device& device) {
  return device.architecture == Architecture::cpu;
}

AllocatorOptions allocator_options(const Device& device, double outside_bytes) {
  AllocatorOptions options;
  options.kind = is_host(device) ? AllocatorKind::host : AllocatorKind::cuda_caching;
  if (device.memory_bytes > 0) {
    options.capacity =
        static_cast<std::int64_t>(std::floor(std::max(0.0, device.memory_bytes - outside_bytes)));
  }
  return options;
}

bool uses(const std::vector<Kernel>& kernels, KernelKind kind) {
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == kind) return true;
  }
  return false;
}

StepMemory step_memory(const TrainingStep& step, const MemoryPlan& plan, const Device& device,
                       MemoryLog* log) {
  return play_steps<ReplicatedState>(step, device, plan.micro_batches, plan.communication_bytes,
                                     log, plan);
}

StepMemory server_memory(const ServerPlan& plan, const Device& device) {
  const double outside = device.context_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options);
  const auto copy = [&](MemoryKind kind, double bytes_per_element) {
    std::vector<Tape::Block> blocks;
    for (const double elements : plan.tensor_elements) {
      blocks.push_back(tape.allocate(kind, elements * bytes_per_element));
    }
    return blocks;
  };
  tape.at(MemoryPhase::construction);
  copy(MemoryKind::parameters, plan.element_bytes);
  tape.at(MemoryPhase::serving);
  for (int i = 0; i < plan.receive_buffers; ++i) copy(MemoryKind::gradients, plan.pushed_bytes);
  for (double rest = plan.optimizer.state_bytes_per_element; rest > 0; rest -= 4) {
    copy(MemoryKind::optimizer_state, std::min(rest, 4.0));
  }
  auto temporaries = copy(MemoryKind::temporaries, plan.optimizer.temporary_bytes_per_element);
  tape.free(temporaries);
  return tape.summary(nullptr, outside, options.capacity);
}

}  // namespace lockstep
