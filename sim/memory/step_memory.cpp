// Implements the queries of peak memory: builds the program of a rank and plays it with a
// StepPlayer, unless the cache has the result of an equal plan. Plans count as equal if they differ
// only in communication buffers, or in the number of micro-batches beyond three.
#include "memory/step_memory.hpp"

#include <algorithm>
#include <cmath>

#include "memory/optimizer_state.hpp"
#include "memory/replicated.hpp"
#include "memory/step_player.hpp"

namespace lockstep {

bool is_host(const Device& device) {
  return device.architecture == Architecture::cpu;
}

AllocatorOptions allocator_options(const Device& device, double outside_bytes) {
  AllocatorOptions options;
  options.kind = is_host(device)              ? AllocatorKind::host
                 : device.expandable_segments ? AllocatorKind::expandable
                                              : AllocatorKind::cuda_caching;
  if (device.memory_bytes > 0) {
    options.capacity =
        static_cast<std::int64_t>(std::floor(std::max(0.0, device.memory_bytes - outside_bytes)));
  }
  return options;
}

// Forward and backward for each micro-batch. The program has at most three micro-batches, the
// first, the second and the last, because all others repeat the second.
PlayedProgram without_pipeline(const TrainingStep& step, int micro_batches) {
  PlayedProgram program;
  for (int micro = 0; micro < micro_batches; ++micro) {
    if (micro >= distinct_micro_batches - 1 && micro + 1 < micro_batches) continue;
    program.actions.push_back({Deed::forward, 0, micro});
    program.actions.push_back({Deed::backward, 0, micro});
  }
  program.chunks = {{0, static_cast<int>(step.layers.size())}};
  return program;
}

namespace {

// Bytes per micro-batch that a rank holds until the step ends: the sent gradients of a chunk, if
// the program waits for their sends only after its last compute action (from `tail` on), and the
// activations that arrived at the last part (LayerPlayer::end_backward_of).
double held_bytes(const JoinedParts& rank, const PlayedProgram& played) {
  const RankProgram& program = played.actions;
  const auto is_wait = [](const Action& action) { return action.deed == Deed::gradient_sent; };
  const auto tail = std::find_if_not(program.rbegin(), program.rend(), is_wait).base();
  double bytes = 0;
  for (std::size_t chunk = 0; chunk < played.chunks.size(); ++chunk) {
    const auto is = [&](Deed deed) {
      return [deed, chunk](const Action& action) {
        return action.deed == deed && action.chunk == static_cast<int>(chunk);
      };
    };
    const auto& layers = rank.step.layers;
    const Layer& first = layers[static_cast<std::size_t>(played.chunks[chunk].first)];
    const Layer& last = layers[static_cast<std::size_t>(played.chunks[chunk].end - 1)];
    const bool sends_late = std::any_of(tail, program.end(), is(Deed::gradient_sent)) &&
                            std::none_of(program.begin(), tail, is(Deed::gradient_sent));
    const bool keeps_arrivals = played.holding.keep_outputs && last.is_loss &&
                                std::any_of(program.begin(), program.end(), is(Deed::backward));
    if (first.boundary == Boundary::receive) {
      bytes += first.output_bytes * (int{sends_late} + int{keeps_arrivals});
    }
  }
  return bytes;
}

}  // namespace

PlayedProgram pipelined(const JoinedParts& rank, const RankProgram& program,
                        const PipelineHolding& holding) {
  PlayedProgram played{program, {}, true, holding};
  for (std::size_t i = 0; i < rank.first_layers.size(); ++i) {
    const bool last = i + 1 == rank.first_layers.size();
    played.chunks.push_back({rank.first_layers[i], last ? static_cast<int>(rank.step.layers.size())
                                                        : rank.first_layers[i + 1]});
  }
  if (holding.further_micro_batches > 0) {
    played.held_bytes = holding.further_micro_batches * held_bytes(rank, played);
  }
  return played;
}

namespace {

// The plan reduced to the numbers on which the result depends: communication buffers are outside
// the allocator, and more than three micro-batches have the same result as three.
MemoryPlan walked(MemoryPlan plan) {
  plan.communication_bytes = 0;
  plan.micro_batches = std::min(plan.micro_batches, distinct_micro_batches);
  return plan;
}

}  // namespace

const StepMemory* KnownMemory::find(const MemoryPlan& plan, std::int64_t capacity) const {
  const MemoryPlan like = walked(plan);
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const auto& entry) { return entry.first == like; });
  const bool fits =
      found != known_.end() && found->second.reserved <= static_cast<double>(capacity);
  return fits ? &found->second : nullptr;
}

void KnownMemory::add(const MemoryPlan& plan, const StepMemory& memory) {
  known_.emplace_back(walked(plan), memory);
}

StepMemory step_memory(const TrainingStep& step, const MemoryPlan& plan, const Device& device,
                       const MemoryQuery& query) {
  // The cache is not used if a log is requested, which only a play can fill. It is also not used on
  // CPUs, whose allocator does not report that memory was short.
  KnownMemory* known = query.log == nullptr && !is_host(device) ? query.known : nullptr;
  const double outside = device.context_bytes + plan.communication_bytes;
  if (known != nullptr) {
    if (const auto* same = known->find(plan, allocator_options(device, outside).capacity)) {
      StepMemory memory = *same;
      memory.device = memory.reserved + outside;
      return memory;
    }
  }
  const StepMemory memory = play_steps<ReplicatedState>(step, device, plan.micro_batches,
                                                        plan.communication_bytes, query, plan);
  const bool whole = memory.device <= query.most && memory.retries == 0 && !memory.out_of_memory;
  if (known != nullptr && whole) known->add(plan, memory);
  return memory;
}

StepMemory pipeline_memory(const JoinedParts& rank, const RankProgram& program,
                           const PipelineHolding& holding, const MemoryPlan& plan,
                           const Device& device, const MemoryQuery& query) {
  return play_program<ReplicatedState>(rank.step, pipelined(rank, program, holding), device,
                                       plan.communication_bytes, query, plan);
}

StepMemory server_memory(const ServerPlan& plan, const Device& device) {
  const double outside = device.context_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options);
  std::vector<UpdatedTensor> tensors;
  for (const double elements : plan.tensor_elements) tensors.push_back({elements});
  for (const TensorUpdate& other : plan.optimizer.others) {
    tensors.at(static_cast<std::size_t>(other.tensor)).other = &other;
  }
  const auto allocate = [&](MemoryKind kind, double bytes_per_element) {
    for (const double elements : plan.tensor_elements) {
      if (bytes_per_element > 0) tape.allocate(kind, elements * bytes_per_element);
    }
  };
  tape.at(MemoryPhase::construction);
  allocate(MemoryKind::parameters, plan.element_bytes);
  tape.at(MemoryPhase::serving);
  for (int i = 0; i < plan.receive_buffers; ++i) {
    allocate(MemoryKind::gradients, plan.pushed_bytes);
  }
  allocate_optimizer_state(tape, tensors, plan.optimizer);
  play_update(tape, tensors, plan.optimizer);
  return tape.summary(nullptr, outside, options.capacity);
}

}  // namespace lockstep
