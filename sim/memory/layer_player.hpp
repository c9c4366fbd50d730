// Simulates the memory of single layers of a micro-batch. A LayerPlayer allocates and frees
// activations, their gradients, workspaces and temporaries on a Tape; a ModelState does the same
// for parameters, parameter gradients and optimizer state. step_player.hpp calls both layer by
// layer in the host's program order.
// The order of allocations within a layer follows autograd's engine, because the peak and the
// fragmentation depend on it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/column_sum.hpp"
#include "memory/host_workspace.hpp"
#include "memory/liveness.hpp"
#include "memory/played_program.hpp"
#include "memory/step_memory.hpp"
#include "memory/tape.hpp"

namespace lockstep {

// Options of the allocator of a device on which `outside_bytes` bytes (context, communication
// buffers) are not available to the allocator.
AllocatorOptions allocator_options(const Device& device, double outside_bytes);

// Interface of the model's own tensors, which depend on the strategy: a rank holds the whole model
// (ReplicatedState) or shards (ShardedState of strategies/fsdp). The player calls these functions
// before and after layers and passes.
template <class S>
concept ModelState = requires(S state, int layer, bool flag) {
  state.construct();
  state.zero_gradients();  // before the first forward of a step
  // Flags: first, last micro-batch of the step; a state must not use them in a pipeline.
  state.begin_forward(flag, flag);
  state.before_forward(layer);
  state.after_forward(layer);
  state.end_forward();
  // Flag: this action computes the step's last gradients of the chunk's weights.
  state.begin_backward(flag, BackwardHalf::both);
  state.before_backward(layer, flag);        // flag: called before the layer's recomputation
  state.parameter_gradients(layer);          // allocates the gradients
  state.pieces(layer, PiecesMoment::first);  // for a layer in a chunked loss
  state.after_backward(layer);
  state.end_backward();
  state.optimizer_step();
};

// Allocates and frees for layers of one rank. turn_to() chooses the micro-batch in flight and the
// chunk to which the following calls belong.
template <ModelState State>
class LayerPlayer {
  using Block = Tape::Block;
  static constexpr Block nothing = CachingAllocator::nothing;

 public:
  // Constructs the state from the tape, the step, the lifetimes and `tensor_of_step` (the
  // strategy's plan).
  // REQUIRES: all references outlive the player.
  template <class... What>
  LayerPlayer(const TrainingStep& step, const PlayedProgram& program, const Device& device,
              Tape& tape, const What&... tensor_of_step)
      : life(find_liveness(step, is_host(device))),
        state(tape, step, life, tensor_of_step...),
        step_(step),
        program_(program),
        device_(device),
        tape_(tape) {
    for (const Layer& layer : step.layers) {
      kinds_.push_back({uses(layer.forward, KernelKind::gemm),
                        uses(layer.backward, KernelKind::gemm),
                        uses(layer.forward, KernelKind::convolution), has_weights(layer),
                        has_weight_product(layer)});
    }
  }

  Liveness life;
  State state;

  // Makes the following calls apply to layers of this chunk and this micro-batch.
  void turn_to(Flight& flight, int chunk) {
    flight_ = &flight;
    chunk_ = &flight.chunks[chunk];
    layers_ = program_.chunks[chunk];
  }
  // Begins a backward of the chunk, whole or one half.
  void begin_backward(BackwardHalf half) {
    half_ = half;
    last_with_weights_ = layers_.end - 1;
    while (last_with_weights_ > layers_.first && !kinds_[last_with_weights_].has_weights) {
      --last_with_weights_;
    }
  }

  void allocate(int tensor) {
    const Liveness::Tensor& tensor_of_step = life.tensors[tensor];
    flight_->blocks[tensor] =
        tape_.allocate(MemoryKind::activations, static_cast<double>(tensor_of_step.bytes),
                       {tensor_of_step.what, step_.layers[tensor_of_step.layer].name});
  }
  void release(int tensor) { tape_.free(std::exchange(flight_->blocks[tensor], nothing)); }

  // Allocates the gradient of the activation that the chunk's last layer, a "send", has sent. The
  // gradient that the next part sends back is received into it.
  int fresh_gradient(int send) {
    const int input = step_.layers[send].inputs.front();
    return flight_->gradients.fresh(step_.layers[input].output_bytes, step_.layers[input].name);
  }

  // Forward of a layer: allocates the tensors that begin to live here, computes, and frees the
  // tensors that end. A sent activation remains until its send is complete (Deed::activation_sent).
  void forward(int layer) {
    const Boundary boundary = step_.layers[layer].boundary;
    tape_.at(MemoryPhase::forward, layer);
    state.before_forward(layer);
    for (const int tensor : life.born_in_forward.of(layer)) {
      // The buffer of an arriving activation was allocated when the receive was posted.
      if (boundary != Boundary::receive || flight_->blocks[tensor] == nothing) allocate(tensor);
    }
    compute(layer);
    for (const int tensor : life.die_after_forward.of(layer)) {
      if (boundary == Boundary::send) {
        chunk_->sent.push_back(tensor);
      } else {
        release(tensor);
      }
    }
    state.after_forward(layer);
  }

  // A chunked loss: forward and backward of the layers from `first` to the end of the chunk, piece
  // by piece. All pieces but the first are alike, so two pieces are simulated. The gradient of the
  // head's input is accumulated in fp32 over the pieces.
  void forward_in_pieces(int first) {
    const int last = layers_.end - 1;
    const int input = step_.layers[first].inputs.front();
    const Layer& source = step_.layers[input];
    tape_.at(MemoryPhase::forward, first);
    const Block sum = tape_.allocate(MemoryKind::temporaries,
                                     source.output_bytes / activation_bytes(step_.precision) * 4,
                                     {"gradient of", source.name});
    for (const bool first_piece : {true, false}) {
      for (int layer = first; layer <= last; ++layer) forward(layer);
      // The variable of the program's loop refers to the logits until the next piece replaces them.
      const int logits = step_.layers[last].inputs.front();
      const Block held = tape_.allocate(MemoryKind::activations, step_.layers[logits].output_bytes,
                                        {"output", step_.layers[logits].name});
      for (int layer = last; layer >= first; --layer) {
        tape_.at(MemoryPhase::forward, layer);
        piece_ = first_piece ? PiecesMoment::first : PiecesMoment::another;
        if (life.needs_gradient[layer]) differentiate(layer);
        for (const int tensor : life.die_after_backward.of(layer)) {
          if (step_.layers[life.tensors[tensor].layer].pieces > 1) release(tensor);
        }
        for (const auto& [to, id, slice] : outgoing_) {
          if (step_.layers[to].pieces > 1) {
            flight_->gradients.deliver(to, id, slice, step_.layers[to]);
          } else {
            flight_->gradients.release(id);
          }
        }
        outgoing_.clear();
      }
      tape_.free(held);
    }
    state.pieces(first, PiecesMoment::over);
    for (const int tensor : life.die_after_backward.of(first)) {
      if (step_.layers[life.tensors[tensor].layer].pieces == 1) release(tensor);
    }
    if (life.needs_gradient[input]) {
      const int whole = flight_->gradients.fresh(source.output_bytes, source.name);
      flight_->gradients.deliver(input, whole, false, source);
    }
    tape_.free(sum);
  }

  // Backward of a layer: recomputes the checkpoint segment that ends at this layer, computes
  // gradients, then frees saved tensors, and only then adds the results to gradients that other
  // layers have delivered.
  void backward(int layer) {
    const int segment = life.segment_of[layer];
    tape_.at(MemoryPhase::backward, layer);
    state.before_backward(layer, false);
    if (step_.layers[layer].pieces > 1) {
      state.pieces(layer, PiecesMoment::backward);
      if (half_ == BackwardHalf::both) state.after_backward(layer);
      return;
    }
    if (segment >= 0 && life.segments[segment].last == layer) {
      recompute(life.segments[segment]);
      tape_.at(MemoryPhase::backward, layer);
    }
    if (life.needs_gradient[layer]) differentiate(layer);
    for (const int tensor : life.die_after_backward.of(layer)) end_backward_of(tensor, layer);
    // Autograd frees a node's inputs and saved tensors before it passes its results on.
    for (const auto& [to, id, slice] : outgoing_) {
      flight_->gradients.deliver(to, id, slice, step_.layers[to]);
    }
    outgoing_.clear();
    if (half_ == BackwardHalf::both) state.after_backward(layer);
  }

  // Second half of a split backward: the gradients of the layer's weights, which the first half
  // (BackwardHalf::inputs) has not computed. `gradient`: the gradient of the layer's output, which
  // has been held since the first half.
  void weights(int layer, int gradient) {
    tape_.at(MemoryPhase::backward, layer);
    if (kinds_[layer].multiplies_backward) matmul_workspace();
    state.parameter_gradients(layer);
    sum_columns(step_.layers[layer]);
    flight_->gradients.release(gradient);
    for (const int tensor : life.last_for_weights.of(layer)) {
      if (!life.tensors[tensor].recomputed && !life.tensors[tensor].for_others) release(tensor);
    }
  }

  // A second forward of a checkpoint segment, before the segment's backward, and in a split
  // backward a third one before the gradients of its weights.
  void recompute(const CheckpointSegment& segment) {
    for (int layer = segment.first; layer <= segment.last; ++layer) {
      tape_.at(MemoryPhase::recomputation, layer);
      state.before_backward(layer, true);
      for (const int tensor : life.born_in_recompute.of(layer)) allocate(tensor);
      if (!step_.layers[layer].keeps_output) compute(layer);
      for (const int tensor : life.die_after_recompute.of(layer)) release(tensor);
    }
  }

  // Tensors that outlive the backward of their chunk. `until_end`: activations that arrived at the
  // last part; they live until the step ends. `returned`: outputs of the last part; they live until
  // the next step begins.
  std::vector<Block> until_end, returned;

 private:
  static bool has_weights(const Layer& layer) {
    return layer.tied_layer >= 0 ||
           std::any_of(layer.parameters.begin(), layer.parameters.end(),
                       [](const Parameter& parameter) { return parameter.trainable; });
  }

  // cuBLAS's workspace, which is allocated for each call (fact 124), unless the device description
  // says that libraries hold theirs permanently. A product with a bias runs on cuBLASLt, which
  // takes 1 MiB on every GPU (PyTorch 2.15, observed under calibrate/oracle/gpu).
  void matmul_workspace(bool with_bias = false) {
    if (device_.kept_workspace_bytes > 0) return;
    constexpr double of_lt = 1024.0 * 1024;
    tape_.touch(MemoryKind::workspace, with_bias ? std::min(of_lt, device_.matmul_workspace_bytes)
                                                 : device_.matmul_workspace_bytes);
  }

  // Partial sums, for the gradient of a bias.
  void sum_columns(const Layer& layer) {
    if (is_host(device_)) return;
    tape_.touch(MemoryKind::temporaries,
                column_sum_scratch(layer.summed_rows, layer.summed_columns, device_));
  }

  // Temporaries of a layer's forward, which are freed before the layer ends.
  void compute(int index) {
    const Layer& layer = step_.layers[index];
    if (kinds_[index].multiplies_forward) matmul_workspace(layer.summed_columns > 0);
    const double workspace = layer.forward_workspace_bytes;
    if (kinds_[index].convolves) {
      tape_.free(tape_.try_workspace(workspace));
    } else {
      tape_.touch(MemoryKind::temporaries, workspace);
    }
    if (is_host(device_)) tape_.free(tape_.try_workspace(on_host(layer).forward));
  }

  // Ends a tensor after the backward of `layer`, the last layer that needs it: frees it, or passes
  // it on to a holder that outlives the backward. After the first half of a split backward, tensors
  // for weights' gradients remain.
  void end_backward_of(int tensor, int layer) {
    const Liveness::Tensor& tensor_of_step = life.tensors[tensor];
    if (half_ == BackwardHalf::inputs && stays_for_weights(tensor_of_step, layer)) return;
    const bool last_part = program_.pipelined && step_.layers[layers_.end - 1].is_loss;
    const bool arrived = tensor_of_step.layer == layers_.first &&
                         step_.layers[layers_.first].boundary == Boundary::receive;
    if (last_part && tensor_of_step.held && program_.holding.return_outputs) {
      returned.push_back(std::exchange(flight_->blocks[tensor], nothing));
    } else if (last_part && arrived && half_ == BackwardHalf::both &&
               program_.holding.keep_outputs) {
      // PyTorch's schedules store the losses of a step. The graph of a loss holds the activation
      // that arrived at the last part (AccumulateGrad's variable).
      until_end.push_back(std::exchange(flight_->blocks[tensor], nothing));
    } else {
      release(tensor);
    }
  }

  // Whether the tensor must remain for weights' gradients after the first half of a split backward.
  // PyTorch retains the graph of all layers up to the last one with weights; the zero-bubble paper
  // and Megatron-LM retain only the operands of the weights' products.
  bool stays_for_weights(const Liveness::Tensor& tensor, int layer) const {
    const bool in_graph = tensor.for_weights || tensor.for_others;
    if (tensor.recomputed || !in_graph) return false;
    return program_.holding.keep_outputs ? layer <= last_with_weights_ : tensor.for_weights;
  }

  // Takes the gradient with which a chunk's backward begins: it comes from the next part on this
  // rank or from a message, and without messages it is newly allocated. The host holds it to the
  // end of the backward.
  void take_arrived(int send) {
    int gradient = flight_->gradients.take(send);
    if (gradient < 0) gradient = std::exchange(chunk_->arrived, -1);
    if (gradient < 0) gradient = fresh_gradient(send);
    flight_->gradients.hold(gradient);
    chunk_->held.push_back(gradient);
    outgoing_.push_back({step_.layers[send].inputs.front(), gradient, false});
  }

  // Gradients of a layer's inputs and parameters, in the order in which autograd allocates them:
  // temporaries, gradients of inputs (or shares of the output's gradient), gradients of parameters.
  void differentiate(int index) {
    const Layer& layer = step_.layers[index];
    if (layer.boundary == Boundary::send) return take_arrived(index);
    GradientPool& gradients = flight_->gradients;
    int gradient = gradients.take(index);
    Block widened = nothing;  // fp32 copy that replaces the gradient
    if (layer.wide) {
      widened = temporary(index, layer.backward_workspace_bytes);
      gradients.release(std::exchange(gradient, -1));
    }
    Block scratch = temporary(index, layer.backward_workspace_bytes);
    for (const int input : layer.inputs) {
      if (input < 0 || !life.needs_gradient[input]) continue;
      const double bytes = step_.layers[input].output_bytes;
      const bool slices = layer.flow == GradientFlow::slices;
      const bool shares =
          slices || (layer.flow == GradientFlow::passes && bytes == layer.output_bytes);
      if (shares && gradient >= 0) {
        gradients.hold(gradient);
        outgoing_.push_back({input, gradient, slices});
        continue;
      }
      tape_.free(std::exchange(widened, nothing));
      if (layer.casts_gradient_last) tape_.free(std::exchange(scratch, nothing));
      const double of_piece =
          step_.layers[input].pieces == layer.pieces ? bytes : bytes / layer.pieces;
      outgoing_.push_back({input, gradients.fresh(of_piece, step_.layers[input].name), false});
    }
    if (kinds_[index].multiplies_backward) matmul_workspace();
    // Under autocast a weight's gradient is first computed in half precision. The half-precision
    // weight that is freed meanwhile is as large, so only one of the two is counted.
    if (layer.pieces == 1 && !leaves_weights(index)) {
      state.parameter_gradients(index);
      sum_columns(layer);
    } else if (layer.pieces == 1 && gradient >= 0) {
      gradients.hold(gradient);
      chunk_->for_weights.emplace_back(index, gradient);
    }
    if (is_host(device_)) tape_.free(tape_.try_workspace(on_host(layer).backward));
    tape_.free(widened);
    tape_.free(scratch);
    if (layer.boundary == Boundary::receive) return depart(layer, gradient);
    gradients.release(gradient);
    if (layer.pieces > 1) state.pieces(index, piece_);
  }

  // Whether this half of a split backward leaves the layer's weight gradients to the other half.
  bool leaves_weights(int layer) const {
    if (half_ == BackwardHalf::both) return false;
    return program_.holding.keep_outputs ? kinds_[layer].has_weights
                                         : kinds_[layer].has_weight_product;
  }

  // Passes the gradient of the input to the previous part: as a message, which Deed::gradient_sent
  // frees, or without one if the previous part is on this rank.
  void depart(const Layer& receive, int gradient) {
    if (half_ == BackwardHalf::inputs && program_.holding.keep_outputs && gradient >= 0) {
      flight_->gradients.hold(gradient);  // as the input's gradient
      chunk_->held.push_back(gradient);
    }
    if (receive.inputs.empty()) {
      chunk_->leaving = gradient;
    } else {
      flight_->gradients.release(gradient);
    }
  }

  // A temporary of a layer's backward. A convolution's workspace is optional, because cuDNN chooses
  // an algorithm with less workspace if memory is short (fact 126). Other temporaries are tensors
  // without which an operator cannot run.
  Block temporary(int layer, double bytes) {
    if (kinds_[layer].convolves) return tape_.try_workspace(bytes);
    return tape_.allocate(MemoryKind::temporaries, bytes);
  }

  HostWorkspace on_host(const Layer& layer) const {
    return host_workspace(layer, parameter_bytes(step_.precision));
  }

  const TrainingStep& step_;
  const PlayedProgram& program_;
  const Device& device_;
  Tape& tape_;
  struct Kinds {
    bool multiplies_forward, multiplies_backward, convolves, has_weights, has_weight_product;
  };
  std::vector<Kinds> kinds_;  // by layer
  // State of the current action.
  Flight* flight_ = nullptr;
  Flight::Chunk* chunk_ = nullptr;
  LayerRange layers_;
  BackwardHalf half_ = BackwardHalf::both;
  int last_with_weights_ = 0;
  PiecesMoment piece_ = PiecesMoment::first;
  struct Outgoing {
    int to, gradient;
    bool slice;
  };
  std::vector<Outgoing> outgoing_;  // gradients that the current layer passes on
};

}  // namespace lockstep
