// Plays a rank's training steps on the allocator in the host's program order: activations, their
// gradients, workspaces and temporaries here, and what is kept of the model by a ModelState.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "memory/host_workspace.hpp"
#include "memory/liveness.hpp"
#include "memory/step_memory.hpp"
#include "memory/tape.hpp"

namespace lockstep {

bool is_host(const Device& device);
AllocatorOptions allocator_options(const Device& device, double outside_bytes);

// Gradients of layer outputs, shared by reference as autograd shares them.
class GradientPool {
 public:
  GradientPool(Tape& tape, std::size_t layers) : tape_(tape), of_(layers) {}

  // `of`: the layer of the output.
  int fresh(double bytes, std::string_view of) {
    const Tape::Block block =
        tape_.allocate(MemoryKind::activation_gradients, bytes, {"output", of});
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
  void deliver(int to, int id, bool slice, const Layer& of) {
    Arrived& arrived = of_[to];
    if (arrived.id < 0) {
      arrived = {id, slice};
    } else if (shared_[arrived.id].holders == 1 && !arrived.slice) {
      release(id);
    } else {
      const int sum = fresh(of.output_bytes, of.name);
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
  using Block = Tape::Block;
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

// A step has a first and a last micro-batch, and those between repeat the second.
inline constexpr int distinct_micro_batches = 3;

// The tensors of the model while its steps are played, on a rank that holds all of it
// (ReplicatedState) or shards (ShardedState). The player calls these around layers and passes.
template <class S>
concept ModelState = requires(S state, int layer, bool flag) {
  state.construct();
  state.zero_gradients();           // before the first forward of a step
  state.begin_forward(flag, flag);  // of the first, of the last micro-batch of a step
  state.before_forward(layer);
  state.after_forward(layer);
  state.end_forward();
  state.begin_backward(flag);  // of the last micro-batch
  state.before_recomputation(layer);
  state.before_backward(layer);
  state.parameter_gradients(layer);  // allocates them
  state.after_backward(layer);
  state.end_backward();
  state.optimizer_step();
};

template <ModelState State>
class StepPlayer {
  using Block = Tape::Block;
  static constexpr Block nothing = CachingAllocator::nothing;
  // Optimizer state appears in the first step, buckets are rebuilt before the second, and the third
  // shows what fragmentation settles at.
  static constexpr int played_steps = 3;

 public:
  // The state of the model is made of the tape, the step and `tensor_of_step`.
  template <class... What>
  StepPlayer(const TrainingStep& step, int micro_batches, const Device& device, Tape& tape,
             const What&... tensor_of_step)
      : step_(step),
        micro_batches_(micro_batches),
        device_(device),
        tape_(tape),
        life_(find_liveness(step, is_host(device))),
        state_(tape, step, life_, tensor_of_step...),
        blocks_(life_.tensors.size(), nothing),
        gradients_(tape, step.layers.size()) {
    for (const Layer& layer : step.layers) {
      kinds_.push_back({uses(layer.forward, KernelKind::gemm),
                        uses(layer.backward, KernelKind::gemm),
                        uses(layer.forward, KernelKind::convolution)});
    }
  }

  // Returns the live activations at the end of the last step's first forward pass; earlier, where
  // more than the tape is asked about is reserved.
  double play() {
    const int layers = static_cast<int>(step_.layers.size());
    double after_forward = 0;
    tape_.at(MemoryPhase::construction);
    state_.construct();
    for (const Layer& layer : step_.layers) {
      for (int i = 0; i < layer.buffers; ++i) {
        tape_.allocate(MemoryKind::buffers, layer.buffer_bytes / layer.buffers,
                       {"statistics", layer.name});
      }
    }
    if (device_.kept_workspace_bytes > 0) {
      tape_.allocate(MemoryKind::workspace, device_.kept_workspace_bytes, {"libraries"});
    }
    Block input = nothing;
    if (tape_.full()) return 0;
    for (int step = 0; step < played_steps; ++step) {
      for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
        const bool last = micro_batch + 1 == micro_batches_;
        tape_.micro_batch(step, micro_batch);
        // The loop's variable lets go of the old batch only when it has the new one.
        tape_.at(MemoryPhase::inputs);
        const Block next = tape_.allocate(MemoryKind::inputs, step_.input_bytes, {"the batch"});
        tape_.free(std::exchange(input, next));
        if (micro_batch == 0) state_.zero_gradients();
        tape_.at(MemoryPhase::forward, 0);
        state_.begin_forward(micro_batch == 0, last);
        for (int layer = 0; layer < layers; ++layer) {
          forward(layer);
          if (tape_.full()) return 0;
        }
        for (const int tensor : life_.die_after_forward_pass) release(tensor);
        state_.end_forward();
        if (micro_batch == 0)
          after_forward = static_cast<double>(tape_.live(MemoryKind::activations));
        tape_.at(MemoryPhase::backward, layers - 1);
        state_.begin_backward(last);
        for (int layer = layers - 1; layer >= 0; --layer) {
          backward(layer);
          if (tape_.full()) return 0;
        }
        state_.end_backward();
        // More micro-batches repeat the second one.
        if (micro_batch == 1 && !last) micro_batch = micro_batches_ - 2;
      }
      state_.optimizer_step();
    }
    tape_.end_log(step_);
    return after_forward;
  }

 private:
  void allocate(int tensor) {
    const Liveness::Tensor& tensor_of_step = life_.tensors[tensor];
    blocks_[tensor] =
        tape_.allocate(MemoryKind::activations, static_cast<double>(tensor_of_step.bytes),
                       {tensor_of_step.what, step_.layers[tensor_of_step.layer].name});
  }
  void release(int tensor) { tape_.free(std::exchange(blocks_[tensor], nothing)); }

  // cuBLAS's, of each call (fact 124), unless it is known to be kept.
  void matmul_workspace() {
    if (device_.kept_workspace_bytes > 0) return;
    tape_.touch(MemoryKind::workspace, device_.matmul_workspace_bytes);
  }

  void compute(int index) {
    const Layer& layer = step_.layers[index];
    if (kinds_[index].multiplies_forward) matmul_workspace();
    const double workspace = layer.forward_workspace_bytes;
    if (kinds_[index].convolves) {
      tape_.free(tape_.try_workspace(workspace));
    } else {
      tape_.touch(MemoryKind::temporaries, workspace);
    }
    if (is_host(device_)) tape_.free(tape_.try_workspace(on_host(layer).forward));
  }

  void forward(int layer) {
    tape_.at(MemoryPhase::forward, layer);
    state_.before_forward(layer);
    for (const int tensor : life_.born_in_forward.of(layer)) allocate(tensor);
    compute(layer);
    for (const int tensor : life_.die_after_forward.of(layer)) release(tensor);
    state_.after_forward(layer);
  }

  void recompute(const CheckpointSegment& segment) {
    for (int layer = segment.first; layer <= segment.last; ++layer) {
      tape_.at(MemoryPhase::recomputation, layer);
      state_.before_recomputation(layer);
      for (const int tensor : life_.born_in_recompute.of(layer)) allocate(tensor);
      if (!step_.layers[layer].keeps_output) compute(layer);
      for (const int tensor : life_.die_after_recompute.of(layer)) release(tensor);
    }
  }

  void backward(int layer) {
    const int segment = life_.segment_of[layer];
    tape_.at(MemoryPhase::backward, layer);
    state_.before_backward(layer);
    if (segment >= 0 && life_.segments[segment].last == layer) {
      recompute(life_.segments[segment]);
      tape_.at(MemoryPhase::backward, layer);
    }
    if (life_.needs_gradient[layer]) differentiate(layer);
    for (const int tensor : life_.die_after_backward.of(layer)) release(tensor);
    // Autograd drops a node's inputs and saved tensors before it passes the results on.
    for (const auto& [to, id, slice] : outgoing_) {
      gradients_.deliver(to, id, slice, step_.layers[to]);
    }
    outgoing_.clear();
    state_.after_backward(layer);
  }

  void differentiate(int index) {
    const Layer& layer = step_.layers[index];
    Block scratch = temporary(index, layer.backward_workspace_bytes);
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
      outgoing_.push_back({input, gradients_.fresh(bytes, step_.layers[input].name), false});
    }
    if (kinds_[index].multiplies_backward) matmul_workspace();
    // Autocast's gradient is half precision first, in what the half-precision weight leaves: as large.
    state_.parameter_gradients(index);
    if (is_host(device_)) tape_.free(tape_.try_workspace(on_host(layer).backward));
    tape_.free(scratch);
    gradients_.release(gradient);
  }

  // cuDNN takes an algorithm with less workspace where memory is short (fact 126); other
  // temporaries are tensors that an operator needs.
  Block temporary(int layer, double bytes) {
    if (kinds_[layer].convolves) return tape_.try_workspace(bytes);
    return tape_.allocate(MemoryKind::temporaries, bytes);
  }

  HostWorkspace on_host(const Layer& layer) const {
    return host_workspace(layer, parameter_bytes(step_.precision));
  }

  const TrainingStep& step_;
  const int micro_batches_;
  const Device& device_;
  Tape& tape_;
  Liveness life_;
  State state_;
  std::vector<Block> blocks_;  // by tensor of life_
  struct Kinds {
    bool multiplies_forward, multiplies_backward, convolves;
  };
  std::vector<Kinds> kinds_;  // of kernels, by layer
  GradientPool gradients_;
  struct Outgoing {
    int to, gradient;
    bool slice;
  };
  std::vector<Outgoing> outgoing_;  // of the layer in hand
};

// Plays the steps and sums up. `outside_bytes`: of the device's memory, beside its context.
template <ModelState State, class... What>
StepMemory play_steps(const TrainingStep& step, const Device& device, int micro_batches,
                      double outside_bytes, const MemoryQuery& query,
                      const What&... tensor_of_step) {
  if (query.log) *query.log = {};
  const double outside = device.context_bytes + outside_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options, query.log, query.most - outside);
  StepPlayer<State> player(step, micro_batches, device, tape, tensor_of_step...);
  const double after_forward = player.play();
  StepMemory result = tape.summary(&step, outside, options.capacity);
  result.after_forward = after_forward;
  return result;
}

}  // namespace lockstep
