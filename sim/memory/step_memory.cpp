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

namespace {

// What of a plan the walk depends on.
MemoryPlan walked(MemoryPlan plan) {
  plan.communication_bytes = 0;
  plan.micro_batches = std::min(plan.micro_batches, distinct_micro_batches);
  return plan;
}

}  // namespace

const StepMemory* KnownMemory::find(const MemoryPlan& plan, std::int64_t capacity) const {
  const MemoryPlan like = walked(plan);
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const auto& one) { return one.first == like; });
  const bool fits =
      found != known_.end() && found->second.reserved <= static_cast<double>(capacity);
  return fits ? &found->second : nullptr;
}

void KnownMemory::add(const MemoryPlan& plan, const StepMemory& memory) {
  known_.emplace_back(walked(plan), memory);
}

StepMemory step_memory(const TrainingStep& step, const MemoryPlan& plan, const Device& device,
                       const MemoryAsked& asked) {
  // Who keeps a log wants the walk; a host's allocator tells not that it was short.
  KnownMemory* known = asked.log == nullptr && !is_host(device) ? asked.known : nullptr;
  const double outside = device.context_bytes + plan.communication_bytes;
  if (known != nullptr) {
    if (const auto* same = known->find(plan, allocator_options(device, outside).capacity)) {
      StepMemory memory = *same;
      memory.device = memory.reserved + outside;
      return memory;
    }
  }
  const StepMemory memory = play_steps<ReplicatedState>(step, device, plan.micro_batches,
                                                        plan.communication_bytes, asked, plan);
  const bool whole = memory.device <= asked.most && memory.retries == 0 && !memory.out_of_memory;
  if (known != nullptr && whole) known->add(plan, memory);
  return memory;
}

StepMemory server_memory(const ServerPlan& plan, const Device& device) {
  const double outside = device.context_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options);
  const auto& optimizer = plan.optimizer;
  std::vector<const TensorUpdate*> others(plan.tensor_elements.size(), nullptr);
  for (const TensorUpdate& other : optimizer.others) {
    others.at(static_cast<std::size_t>(other.tensor)) = &other;
  }
  // `bytes`: of the tensor's elements, by its number; 0 = nothing.
  const auto copy = [&](MemoryKind kind, const auto& bytes) {
    std::vector<Tape::Block> blocks;
    for (std::size_t i = 0; i < plan.tensor_elements.size(); ++i) {
      if (bytes(i) <= 0) continue;
      blocks.push_back(tape.allocate(kind, plan.tensor_elements[i] * bytes(i)));
    }
    return blocks;
  };
  const auto each = [](double bytes) { return [bytes](std::size_t) { return bytes; }; };
  tape.at(MemoryPhase::construction);
  copy(MemoryKind::parameters, each(plan.element_bytes));
  tape.at(MemoryPhase::serving);
  for (int i = 0; i < plan.receive_buffers; ++i) {
    copy(MemoryKind::gradients, each(plan.pushed_bytes));
  }
  double most = optimizer.state_bytes_per_element;
  for (const TensorUpdate& other : optimizer.others) {
    most = std::max(most, other.state_bytes_per_element);
  }
  for (double listed = 0; listed < most; listed += 4) {
    copy(MemoryKind::optimizer_state, [&](std::size_t i) {
      const double state = others[i] != nullptr ? others[i]->state_bytes_per_element
                                                : optimizer.state_bytes_per_element;
      return std::min(state - listed, 4.0);
    });
  }
  auto temporaries = copy(MemoryKind::temporaries, [&](std::size_t i) {
    return others[i] != nullptr ? others[i]->temporary_bytes_per_element
                                : optimizer.temporary_bytes_per_element;
  });
  for (const TensorUpdate& other : optimizer.others) {
    std::vector<Tape::Block> together;
    for (const double bytes : other.temporaries) {
      together.push_back(tape.allocate(MemoryKind::temporaries, bytes));
    }
    tape.free(together);
  }
  tape.free(temporaries);
  return tape.summary(nullptr, outside, options.capacity);
}

}  // namespace lockstep
