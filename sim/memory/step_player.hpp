// Carries out a rank's training steps on the allocator in the host's program order: construction,
// and then several steps with their actions, layer by layer, and the optimizer. The result is the
// peak of memory; docs/memory.md has the formula of each number.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "memory/layer_player.hpp"

namespace lockstep {

// Plays one rank's steps once. The template parameter is the strategy's model state.
template <ModelState State>
class StepPlayer {
  using Block = Tape::Block;
  // Optimizer state appears in the first step, DDP's buckets are rebuilt before the second, and
  // from the third step on fragmentation repeats itself. In a pipeline it repeats itself from the
  // second step on, because each step has many micro-batches.
  static constexpr int played_steps = 3, pipelined_steps = 2;

 public:
  template <class... What>
  StepPlayer(const TrainingStep& step, const PlayedProgram& program, const Device& device,
             Tape& tape, const What&... tensor_of_step)
      : step_(step),
        program_(program),
        device_(device),
        tape_(tape),
        layers_(step, program, device, tape, tensor_of_step...) {
    int flights = 1;
    for (const Action& action : program.actions) {
      if (program.pipelined) flights = std::max(flights, action.micro + 1);
    }
    for (int i = 0; i < flights; ++i) {
      flights_.emplace_back(tape, layers_.life.tensors.size(), step.layers.size(),
                            program.chunks.size());
    }
  }

  // Plays all steps. Returns the bytes of activations that live after the first forward of the last
  // step. If construction or an action exceeds the tape's limit (Tape::full), stops and returns 0.
  double play() {
    construct();
    if (tape_.full()) return 0;
    const int steps = program_.pipelined ? pipelined_steps : played_steps;
    for (int step = 0; step < steps; ++step) {
      begin_step(step);
      for (const Action& action : program_.actions) {
        tape_.micro_batch(step, action.micro);
        play(action);
        if (tape_.full()) return 0;
      }
      end_step();
    }
    tape_.end_log(step_);
    return after_forward_;
  }

 private:
  // Allocates the tensors that exist before the first step: parameters, buffers, and workspaces
  // that are never freed.
  void construct() {
    tape_.at(MemoryPhase::construction);
    layers_.state.construct();
    for (const Layer& layer : step_.layers) {
      for (int i = 0; i < layer.buffers; ++i) {
        tape_.allocate(MemoryKind::buffers, layer.buffer_bytes / layer.buffers,
                       {"statistics", layer.name});
      }
    }
    double shared = 0;
    for (const Layer& layer : step_.layers) shared = std::max(shared, layer.shared_buffer_bytes);
    tape_.allocate(MemoryKind::workspace, shared, {"shared buffer"});
    if (device_.kept_workspace_bytes > 0) {
      tape_.allocate(MemoryKind::workspace, device_.kept_workspace_bytes, {"libraries"});
    }
  }

  // Counts the step's backwards by chunk. In a pipeline the batch of all micro-batches is copied at
  // once. If a settled_shape() plays fewer micro-batches than the step has, one block stands for
  // the tensors that the others hold to the end of the step.
  void begin_step(int step) {
    forwards_ = 0;
    backwards_left_.assign(program_.chunks.size(), 0);
    for (const Action& action : program_.actions) {
      if (gives_weights(action.deed)) ++backwards_left_[action.chunk];
    }
    if (!program_.pipelined) return;
    tape_.micro_batch(step, 0);
    tape_.free(layers_.returned);
    take_batch(static_cast<double>(flights_.size()) + program_.holding.further_micro_batches);
    layers_.state.zero_gradients();
    layers_.until_end.push_back(tape_.allocate(MemoryKind::activation_gradients,
                                               program_.held_bytes, {"further micro-batches"}));
  }

  void end_step() {
    tape_.free(layers_.until_end);
    double returned = 0;
    for (const Block block : layers_.returned) returned += static_cast<double>(tape_.bytes(block));
    // with return_outputs the outputs are joined into one tensor
    if (returned > 0) tape_.touch(MemoryKind::temporaries, returned);
    layers_.state.optimizer_step();
  }

  // Copies a batch of inputs. The variable of the training loop frees the old batch only when the
  // new one exists, so both live for a moment.
  void take_batch(double micro_batches) {
    tape_.at(MemoryPhase::inputs);
    const Block next =
        tape_.allocate(MemoryKind::inputs, micro_batches * step_.input_bytes, {"the batch"});
    tape_.free(std::exchange(input_, next));
  }

  // Plays one action of the rank's program. A receive allocates its buffer when it is posted.
  void play(const Action& action) {
    flight_ = &flights_[program_.pipelined ? action.micro : 0];
    chunk_ = &flight_->chunks[action.chunk];
    range_ = program_.chunks[action.chunk];
    layers_.turn_to(*flight_, action.chunk);
    switch (action.deed) {
      case Deed::forward:
        return forward();
      case Deed::backward:
        return backward(action.chunk, BackwardHalf::both);
      case Deed::backward_input:
        chunk_->halved = program_.holding.keep_outputs;
        if (waits_for_weights()) return;
        return backward(action.chunk, BackwardHalf::inputs);
      case Deed::backward_weight:
        if (waits_for_weights()) return backward(action.chunk, BackwardHalf::both);
        return weights(action.chunk);
      case Deed::receive_activation:
        tape_.at(MemoryPhase::forward, range_.first);
        for (const int tensor : life().born_in_forward.of(range_.first)) layers_.allocate(tensor);
        return;
      case Deed::receive_gradient:
        tape_.at(MemoryPhase::backward, range_.end - 1);
        chunk_->arrived = layers_.fresh_gradient(range_.end - 1);
        return;
      case Deed::activation_sent:
        // Between the halves of a split backward, PyTorch's backward_state holds the sent
        // activation.
        if (!chunk_->halved) release_sent();
        return;
      case Deed::gradient_sent:
        return flight_->gradients.release(std::exchange(chunk_->leaving, -1));
      case Deed::send_activation:
      case Deed::send_gradient:
        return;
    }
  }

  const Liveness& life() const { return layers_.life; }

  // Whether the chunk runs all of backward in the weights' half. In PyTorch the model's first part
  // does so, because no rank needs the gradient of its input
  // (_PipelineStageBase.backward_weight_one_chunk).
  bool waits_for_weights() const {
    return program_.holding.keep_outputs &&
           step_.layers[range_.first].boundary != Boundary::receive;
  }

  // Forward of the current chunk and micro-batch. Without a pipeline every micro-batch copies a
  // batch of its own.
  void forward() {
    if (!program_.pipelined) {
      take_batch(1);
      if (forwards_ == 0) layers_.state.zero_gradients();
    }
    tape_.at(MemoryPhase::forward, range_.first);
    // Without a pipeline forwards and backwards alternate, so these flags (first, last micro-batch)
    // are right. In a pipeline no state uses them.
    layers_.state.begin_forward(forwards_ == 0, backwards_left_.front() == 1);
    for (int layer = range_.first; layer < range_.end; ++layer) {
      if (step_.layers[layer].pieces > 1) {
        layers_.forward_in_pieces(layer);
        layer = range_.end;
      } else {
        layers_.forward(layer);
      }
      if (tape_.full()) return;
    }
    for (const int tensor : life().die_after_forward_pass) {
      const int layer = life().tensors[tensor].layer;
      if (layer >= range_.first && layer < range_.end) layers_.release(tensor);
    }
    layers_.state.end_forward();
    if (forwards_++ == 0) after_forward_ = static_cast<double>(tape_.live(MemoryKind::activations));
  }

  // Backward of the current chunk and micro-batch, or its first half, which computes the gradients
  // of inputs.
  void backward(int chunk, BackwardHalf half) {
    tape_.at(MemoryPhase::backward, range_.end - 1);
    const bool both = half == BackwardHalf::both;
    layers_.begin_backward(half);
    layers_.state.begin_backward(both && --backwards_left_[chunk] == 0, half);
    for (int layer = range_.end - 1; layer >= range_.first; --layer) {
      layers_.backward(layer);
      if (tape_.full()) return;
    }
    layers_.state.end_backward();
    if (both) let_go();
  }

  // The half of backward that computes the gradients of weights, in forward order of layers. It
  // recomputes checkpointed segments a second time, one after the other.
  void weights(int chunk) {
    layers_.state.begin_backward(--backwards_left_[chunk] == 0, BackwardHalf::weights);
    int segment = -1;
    const auto leave_segment = [&] {
      if (segment < 0) return;
      for (int layer = life().segments[segment].first; layer <= life().segments[segment].last;
           ++layer) {
        for (const int tensor : life().born_in_recompute.of(layer)) layers_.release(tensor);
      }
    };
    auto& left = chunk_->for_weights;
    for (; !left.empty(); left.pop_back()) {
      const auto [layer, gradient] = left.back();
      if (life().segment_of[layer] != segment) {
        leave_segment();
        segment = life().segment_of[layer];
        if (segment >= 0) layers_.recompute(life().segments[segment]);
      }
      layers_.weights(layer, gradient);
      if (tape_.full()) return;
    }
    leave_segment();
    for (int layer = range_.end - 1; layer >= range_.first; --layer) {
      for (const int tensor : life().die_after_backward.of(layer)) layers_.release(tensor);
      layers_.state.after_backward(layer);
    }
    layers_.state.end_backward();
    let_go();
  }

  // Frees the tensors that the host has held during a backward, at the end of a whole backward or
  // of its second half.
  void let_go() {
    if (std::exchange(chunk_->halved, false)) release_sent();
    for (const int gradient : chunk_->held) flight_->gradients.release(gradient);
    chunk_->held.clear();
  }
  void release_sent() {
    for (const int tensor : chunk_->sent) layers_.release(tensor);
    chunk_->sent.clear();
  }

  const TrainingStep& step_;
  const PlayedProgram& program_;
  const Device& device_;
  Tape& tape_;
  LayerPlayer<State> layers_;
  std::deque<Flight> flights_;  // by micro-batch; a single one without a pipeline
  Block input_ = CachingAllocator::nothing;
  int forwards_ = 0;                 // of this step
  std::vector<int> backwards_left_;  // of this step, by chunk
  double after_forward_ = 0;
  // State of the current action.
  Flight* flight_ = nullptr;
  Flight::Chunk* chunk_ = nullptr;
  LayerRange range_;
};

// Plays a program and summarises its memory. `outside_bytes`: device memory outside the allocator,
// besides the context. `tensor_of_step`: the further arguments of the State's constructor.
template <ModelState State, class... What>
StepMemory play_program(const TrainingStep& step, const PlayedProgram& program,
                        const Device& device, double outside_bytes, const MemoryQuery& query,
                        const What&... tensor_of_step) {
  if (query.log) *query.log = {};
  const double outside = device.context_bytes + outside_bytes;
  const AllocatorOptions options = allocator_options(device, outside);
  Tape tape(options, query.log, query.most - outside);
  StepPlayer<State> player(step, program, device, tape, tensor_of_step...);
  const double after_forward = player.play();
  StepMemory result = tape.summary(&step, outside, options.capacity);
  result.after_forward = after_forward;
  return result;
}

// Plays steps of `micro_batches` micro-batches one after the other (at most
// distinct_micro_batches), without a pipeline, and summarises the memory.
template <ModelState State, class... What>
StepMemory play_steps(const TrainingStep& step, const Device& device, int micro_batches,
                      double outside_bytes, const MemoryQuery& query,
                      const What&... tensor_of_step) {
  return play_program<State>(step, without_pipeline(step, micro_batches), device, outside_bytes,
                             query, tensor_of_step...);
}

}  // namespace lockstep
