// See step_memory.hpp. Three steps are played: optimizer state appears in the first, buckets are
// rebuilt before the second, and the third shows what fragmentation settles at.
#include "memory/step_memory.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "memory/host_workspace.hpp"
#include "memory/liveness.hpp"
#include "memory/replicated.hpp"
#include "memory/sharded.hpp"
#include "memory/tape.hpp"

namespace lockstep {
namespace {

using Block = Tape::Block;
constexpr Block nothing = CachingAllocator::nothing;
constexpr int played_steps = 3;

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

// Gradients of layer outputs, shared by reference as autograd shares them.
class GradientPool {
 public:
  GradientPool(Tape& tape, std::size_t layers) : tape_(tape), of_(layers) {}

  int fresh(double bytes) {
    const Block block = tape_.allocate(MemoryKind::activation_gradients, bytes);
    if (unused_.empty()) {
      shared_.push_back({block, 1});
      return static_cast<int>(shared_.size()) - 1;
    }
    const int id = unused_.back();
    unused_.pop_back();
    shared_[id] = {block, 1};
    return id;
  }
  void hold(int id) { ++shared_[id].holders; }
  void release(int id) {
    if (id < 0 || --shared_[id].holders > 0) return;
    tape_.free(shared_[id].block);
    unused_.push_back(id);
  }
  // Hands one holder's share of `id` to layer `to`. A second arrival is added in place when nobody
  // else holds the first, which must be a whole tensor; otherwise the sum is a new one.
  void deliver(int to, int id, bool slice, double bytes) {
    Arrived& arrived = of_[to];
    if (arrived.id < 0) {
      arrived = {id, slice};
    } else if (shared_[arrived.id].holders == 1 && !arrived.slice) {
      release(id);
    } else {
      const int sum = fresh(bytes);
      release(arrived.id);
      release(id);
      arrived = {sum, false};
    }
  }
  int take(int layer) {
    const int id = of_[layer].id;
    of_[layer] = {};
    return id;
  }

 private:
  struct Shared {
    Block block;
    int holders;
  };
  struct Arrived {
    int id = -1;
    bool slice = false;
  };
  Tape& tape_;
  std::vector<Shared> shared_;
  std::vector<int> unused_;
  std::vector<Arrived> of_;
};

template <class State>
class Player {
 public:
  Player(const TrainingStep& step, const MemoryPlan& plan, const Device& device, Tape& tape)
      : step_(step),
        plan_(plan),
        device_(device),
        tape_(tape),
        life_(find_liveness(step, is_host(device))),
        state_(tape, step, life_, plan),
        blocks_(life_.tensors.size(), nothing),
        gradients_(tape, step.layers.size()) {}

  // Returns the live activations at the end of the last step's first forward pass.
  double play() {
    const int layers = static_cast<int>(step_.layers.size());
    double after_forward = 0;
    tape_.at(MemoryPhase::construction);
    state_.construct();
    for (const Layer& layer : step_.layers) {
      for (int i = 0; i < layer.buffers; ++i) {
        tape_.allocate(MemoryKind::buffers, layer.buffer_bytes / layer.buffers);
      }
    }
    Block input = nothing;
    for (int step = 0; step < played_steps; ++step) {
      for (int micro_batch = 0; micro_batch < plan_.micro_batches; ++micro_batch) {
        const bool last = micro_batch + 1 == plan_.micro_batches;
        tape_.micro_batch(step, micro_batch);
        // The loop's variable lets go of the old batch only when it has the new one.
        tape_.at(MemoryPhase::inputs);
        const Block next = tape_.allocate(MemoryKind::inputs, step_.input_bytes);
        tape_.free(std::exchange(input, next));
        if (micro_batch == 0) state_.zero_gradients();
        tape_.at(MemoryPhase::forward, 0);
        state_.begin_forward(last);
        for (int layer = 0; layer < layers; ++layer) forward(layer);
        for (const int tensor : life_.die_after_forward_pass) release(tensor);
        state_.end_forward();
        if (micro_batch == 0)
          after_forward = static_cast<double>(tape_.live(MemoryKind::activations));
        tape_.at(MemoryPhase::backward, layers - 1);
        state_.begin_backward(last);
        for (int layer = layers - 1; layer >= 0; --layer) backward(layer);
        state_.end_backward();
        // More micro-batches repeat the second one.
        if (micro_batch == 1 && !last) micro_batch = plan_.micro_batches - 2;
      }
      state_.optimizer_step();
    }
    tape_.end_log();
    return after_forward;
  }

 private:
  void allocate(int tensor) {
    blocks_[tensor] =
        tape_.allocate(MemoryKind::activations, static_cast<double>(life_.tensors[tensor].bytes));
  }
  void release(int tensor) { tape_.free(std::exchange(blocks_[tensor], nothing)); }

  // cuBLAS's, of each call (fact 124).
  void matmul_workspace(const std::vector<Kernel>& kernels) {
    if (!uses(kernels, KernelKind::gemm)) return;
    tape_.free(tape_.allocate(MemoryKind::workspace, device_.matmul_workspace_bytes));
  }

  void compute(int layer, std::span<const int> born, std::span<const int> dying) {
    for (const int tensor : born) allocate(tensor);
    const Layer& what = step_.layers[layer];
    matmul_workspace(what.forward);
    tape_.free(temporary(what, what.forward_workspace_bytes));
    if (is_host(device_)) tape_.free(tape_.try_workspace(on_host(what).forward));
    for (const int tensor : dying) release(tensor);
  }

  void forward(int layer) {
    tape_.at(MemoryPhase::forward, layer);
    state_.before_forward(layer);
    compute(layer, life_.born_in_forward.of(layer), life_.die_after_forward.of(layer));
    state_.after_forward(layer);
  }

  void recompute(const CheckpointSegment& segment) {
    for (int layer = segment.first; layer <= segment.last; ++layer) {
      tape_.at(MemoryPhase::recomputation, layer);
      state_.before_backward(layer);
      compute(layer, life_.born_in_recompute.of(layer), life_.die_after_recompute.of(layer));
    }
  }

  void backward(int layer) {
    const int segment = life_.segment_of[layer];
    if (segment >= 0 && life_.segments[segment].last == layer) recompute(life_.segments[segment]);
    tape_.at(MemoryPhase::backward, layer);
    state_.before_backward(layer);
    if (life_.needs_gradient[layer]) differentiate(layer);
    for (const int tensor : life_.die_after_backward.of(layer)) release(tensor);
    // Autograd drops a node's inputs and saved tensors before it passes the results on.
    for (const auto& [to, id, slice] : outgoing_) {
      gradients_.deliver(to, id, slice, step_.layers[to].output_bytes);
    }
    outgoing_.clear();
    state_.after_backward(layer);
  }

  void differentiate(int index) {
    const Layer& layer = step_.layers[index];
    Block scratch = temporary(layer, layer.backward_workspace_bytes);
    const int gradient = gradients_.take(index);
    for (const int input : layer.inputs) {
      if (input < 0 || !life_.needs_gradient[input]) continue;
      const double bytes = step_.layers[input].output_bytes;
      const bool slices = layer.flow == GradientFlow::slices;
      const bool shares =
          slices || (layer.flow == GradientFlow::passes && bytes == layer.output_bytes);
      if (shares && gradient >= 0) {
        gradients_.hold(gradient);
        outgoing_.push_back({input, gradient, slices});
        continue;
      }
      if (layer.casts_gradient_last) tape_.free(std::exchange(scratch, nothing));
      outgoing_.push_back({input, gradients_.fresh(bytes), false});
    }
    matmul_workspace(layer.backward);
    // Autocast's gradient is half precision first, in what the half-precision weight leaves: as large.
    state_.parameter_gradients(index);
    if (is_host(device_)) tape_.free(tape_.try_workspace(on_host(layer).backward));
    tape_.free(scratch);
    gradients_.release(gradient);
  }

  // cuDNN takes an algorithm with less workspace where memory is short (fact 126); other
  // temporaries are tensors that an operator needs.
  Block temporary(const Layer& layer, double bytes) {
    if (uses(layer.forward, KernelKind::convolution)) return tape_.try_workspace(bytes);
    return tape_.allocate(MemoryKind::temporaries, bytes);
  }

  HostWorkspace on_host(const Layer& layer) const {
    return host_workspace(layer, parameter_bytes(step_.precision));
  }

  const TrainingStep& step_;
  const MemoryPlan& plan_;
  const Device& device_;
  Tape& tape_;
  Liveness life_;
  State state_;
  std::vector<Block> blocks_;  // by tensor of life_
  GradientPool gradients_;
  struct Outgoing {
    int to, gradient;
    bool slice;
  };
  std::vector<Outgoing> outgoing_;  // of the layer in hand
};

}  // namespace

StepMemory step_memory(const TrainingStep& step, const MemoryPlan& plan, const Device& device,
                       MemoryLog* log) {
  if (log) *log = {};
  const double outside = device.context_bytes + plan.communication_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options, log);
  const double after_forward = plan.sharded
                                   ? Player<ShardedState>(step, plan, device, tape).play()
                                   : Player<ReplicatedState>(step, plan, device, tape).play();
  StepMemory result = tape.summary(&step, outside, options.capacity);
  result.after_forward = after_forward;
  return result;
}

StepMemory server_memory(const ServerPlan& plan, const Device& device) {
  const double outside = device.context_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options);
  const auto copy = [&](MemoryKind kind, double bytes_per_element) {
    std::vector<Block> blocks;
    for (const double elements : plan.tensor_elements) {
      blocks.push_back(tape.allocate(kind, elements * bytes_per_element));
    }
    return blocks;
  };
  tape.at(MemoryPhase::construction);
  copy(MemoryKind::parameters, plan.element_bytes);
  tape.at(MemoryPhase::serving);
  for (int i = 0; i < plan.receive_buffers; ++i) copy(MemoryKind::gradients, plan.element_bytes);
  for (double rest = plan.optimizer.state_bytes_per_element; rest > 0; rest -= 4) {
    copy(MemoryKind::optimizer_state, std::min(rest, 4.0));
  }
  auto temporaries = copy(MemoryKind::temporaries, plan.optimizer.temporary_bytes_per_element);
  tape.free(temporaries);
  return tape.summary(nullptr, outside, options.capacity);
}

}  // namespace lockstep
