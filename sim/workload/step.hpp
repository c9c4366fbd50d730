// One training step of one model replica on one device, at one batch size and precision, as an
// ordered list of layers. This is what every later room reads: costs price the kernels, strategies
// walk the layers, memory follows the saved tensors. No seconds in here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/mesh.hpp"
#include "workload/precision.hpp"

namespace lockstep {

enum class KernelKind {
  gemm,         // m x k times k x n, `batch` independent products
  convolution,  // implicit GEMM view in m, n, k; geometry in `conv`
  attention,    // fused (flash) attention; m = query length, n = key length, k = head size, batch =
                // heads*samples
  elementwise,  // activation, add, dropout, cast, scale: streaming
  normalization,  // batch/layer/RMS/group norm: streaming with a reduction
  softmax,        // softmax and cross-entropy
  pooling,
  embedding,  // gather / scatter-add of rows
  copy,       // concat, layout change, fill
  optimizer,
};

enum class Pass { forward, data_gradient, weight_gradient, backward };  // backward = of unsplit ops

struct ConvGeometry {
  std::int64_t channels_in = 0, channels_out = 0, groups = 1;
  int kernel_h = 1, kernel_w = 1, stride = 1, dilation = 1;
  std::int64_t height_in = 0, width_in = 0, height_out = 0, width_out = 0, images = 0;
  bool channels_last = false;  // the input lies in memory with its channels last
};

// One device kernel (or a tight family of `launches` kernels that an eager framework runs for one
// operator). FLOPs count a multiply-add as two. Bytes are the ideal traffic: every input read once,
// every output written once, at the element size of the precision.
struct Kernel {
  KernelKind kind = KernelKind::elementwise;
  Pass pass = Pass::forward;
  MathMode math = MathMode::fp32;
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // for gemm, convolution, attention
  ConvGeometry conv;                            // for convolution only
  int launches = 1;                             // device kernels launched
  // Framework operators dispatched by the host for it (ATen-level, eager). An entry with operators
  // but no launches is host work only: explicit views, and in backward each parameter's
  // AccumulateGrad.
  int operators = 1;
  bool quantises = false;  // an operand of the layer's product
  double speed = 1;        // of a product, relative to the library's best kernels of its mode
  // A copy for the convolution before it, which runs on matrix units that want another layout.
  bool changes_layout = false;
};

struct Parameter {
  std::string name;  // "features.0.weight"
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;  // product of shape
  bool trainable = true;
  double stored_bytes = 0;  // of a frozen one; 0 = as the step's precision has it
  // On a mesh. Its gradient is a sum over the ranks of the tensor axis, each of which has a part of the
  // tokens or heads that read it (fact H18).
  bool partial_over_tensor = false;
  bool expert = false;  // of an expert: other ranks have other experts (fact H5)
  // Elements of the gradient that backward gives, where it is of more than the parameter; 0 = `count`.
  std::int64_t gradient_count = 0;
  double gathered_bytes =
      0;  // of an element on its way to an FSDP unit; 0 = as the strategy has it

  std::int64_t gradient_elements() const { return gradient_count > 0 ? gradient_count : count; }
  // On a device that keeps trained parameters in so many bytes each.
  double bytes(double element_bytes) const {
    return stored_bytes > 0 ? stored_bytes : static_cast<double>(count) * element_bytes;
  }
};

// A tensor kept from forward until the backward of the layer that saved it has run.
struct SavedTensor {
  std::string name;          // "input", "mask", ...
  double bytes = 0;          // for the whole local batch
  int storage = 0;           // same id = same storage, counted once however many layers save it
  int produced_by = 0;       // layer whose forward allocates the storage
  bool weight_copy = false;  // autocast's half-precision copy of a parameter (fact 22)
  bool mask = false;         // of a dropout: bytes on a GPU, of the output's type on a CPU
  bool with_output = false;  // written by the kernel that writes the output
  bool held = false;         // by the host's program, not for backward's work
};

// What the ranks of an axis of the mesh send each other between two layers, or beside one.
enum class ExchangeKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  shift,  // from each rank to the next of a ring
};
// The work beside a running exchange.
enum class Beside : std::uint8_t {
  nothing,         // what comes next waits for it
  own_layer,       // the layer's own kernels
  input_gradient,  // backward, of a product: its input's gradient; its weights' waits
  reader,  // all work until a layer reads what arrives; backward: since that layer's has begun
  weight_gradient  // backward, of an exchange: the weights' gradients of the products that read its
                   // output, whose inputs' gradients are all there when it starts
};
struct AxisExchange {
  Axis axis = Axis::tensor;
  ExchangeKind kind = ExchangeKind::all_reduce;
  double bytes = 0;  // the full logical size, as for collective_cost() (costs/collective.hpp)
  Beside beside = Beside::nothing;
  bool host_waits = false;  // for the sizes of what is sent: tokens without a capacity
};

// How the gradient of a layer's output becomes those of its inputs.
enum class GradientFlow : std::uint8_t {
  fresh,   // backward allocates one gradient per input
  passes,  // inputs of the output's size get its gradient itself: add, views
  slices,  // inputs get slices of the output's gradient: concat
};

// Where a part of a model meets another one (workload/partition.hpp).
enum class Boundary : std::uint8_t {
  none,
  receive,  // the output arrives from the part before, which wants its gradient
  send,     // the input goes to the part after, which gives its gradient
};

struct Layer {
  std::string name;  // "layer1.0.conv2"
  std::string kind;  // "conv", "batch_norm", ... as written in the model file
  std::string
      block;  // path of the innermost enclosing repeated block: FSDP's wrapping unit ("layer1.0");
              // "" when the layer stands directly in the root
  // The operator's evaluated arguments (docs/model-format.md), so that a real network can be built
  // from the layers; probabilities in millionths.
  std::vector<std::pair<std::string, std::int64_t>> attributes;
  std::string tied_to;  // parameter of an earlier layer that this one reads ("wte.weight")
  int tied_layer = -1;  // that layer, and which of its parameters
  int tied_parameter = 0;
  std::vector<Parameter> parameters;
  double buffer_bytes = 0;  // BatchNorm running statistics: what DDP broadcasts (fact 15)
  int buffers = 0;          // how many buffer tensors
  int counters = 0;         // int64 ones among them: batches seen
  double shared_buffer_bytes =
      0;  // of a buffer that stays from step to step and serves all layers of a rank
  std::vector<Kernel> forward;
  std::vector<Kernel> backward;    // in execution order; gradients ready after the last one
  std::vector<int> inputs;         // indices of producing layers; -1 = the step's input
  double output_bytes = 0;         // forward output, whole local batch
  int output_storage = 0;          // storage id of the output (in-place and view layers share)
  std::vector<SavedTensor> saved;  // what this layer's backward needs
  GradientFlow flow = GradientFlow::fresh;
  double forward_workspace_bytes = 0;  // temporary during its forward / backward
  double backward_workspace_bytes = 0;
  std::int64_t summed_rows = 0, summed_columns = 0;  // of a matrix product: for its bias's gradient
  // Backward's temporaries end in a cast: they are given up before the input's gradient is there.
  bool casts_gradient_last = false;
  double host_backward_workspace_bytes = 0;  // more of it where a CPU computes
  // On a mesh, in this order: before the layer's own kernels. An exchange is a layer of its own, whose
  // output is what arrived; backward has its mirror.
  std::vector<AxisExchange> forward_exchanges, backward_exchanges;
  Boundary boundary = Boundary::none;
  // The output's gradient is asked for though nothing below is trained: transformers'
  // enable_input_require_grads, for activation checkpointing.
  bool starts_gradients = false;
  bool is_loss = false;  // what the network's output is judged by: outside its module
  bool is_attention = false;
  // Of the tokens. The head and what follows work on one piece after the other, and give the gradients of
  // the head's weight and input in forward (torchtitan 0.3.0, components/loss.py: ChunkedLossWrapper).
  // Kernels and exchanges are those of all pieces, tensors those of one.
  int pieces = 1;
  bool wide = false;  // fp32, its parameters too, between casts in a step of half precision
  // Inside what activation checkpointing computes again in backward; `keeps_output`: all but this
  // layer's products, whose results stay from forward on.
  bool checkpointed = false;
  bool keeps_output = false;
  // A compiled graph's wrapper launches its kernels, without modules, autograd or Python's dispatch.
  bool compiled = false;
};

// Whether backward runs the kernel of a layer's forward a second time.
bool runs_again(const Layer& layer, const Kernel& kernel);
// Attention scores and products, linear layers and convolutions; the rest is small beside them.
bool is_product(const Kernel& kernel);
bool uses(const std::vector<Kernel>& kernels, KernelKind kind);
// FLOPs that the model needs of a kernel: a product's. Fused attention's backward computes the scores again,
// which is a fifth of its FLOPs.
double model_flops(const Kernel& kernel);
// Backward's additions of the gradients of an output that several layers read.
Kernel gradient_sum(int additions, double output_bytes);

// The value of an attribute; `fallback` when the layer has no such one.
std::int64_t attribute(const Layer& layer, std::string_view name, std::int64_t fallback = 0);

struct TrainingStep {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t samples = 0;               // local batch (one micro-batch)
  std::int64_t tokens = 0;                // samples * sequence; 0 for models without tokens
  std::vector<std::int64_t> input_shape;  // of one sample: channels, height, width; or tokens
  double input_bytes = 0;                 // what is copied host to device for one micro-batch
  std::vector<Layer> layers;              // forward order; backward is the reverse
  std::int64_t parameter_count = 0;       // trainable, shared parameters counted once
  double forward_flops = 0;               // of the model, without recomputation
  double backward_flops = 0;
  double dropped_tokens = 0;  // share of the tokens' choices of experts, in every mixture
  // false: parts of layers, a token slice with others before it, frozen or compiled layers, products in
  // fp8, which no profile has measured
  bool whole_layers = true;
  // Forward and backward are launched as one CUDA graph.
  bool captured = false;
};

// Ids of storages are below it.
int storage_count(const TrainingStep& step);

// Sets the counts of parameters and FLOPs, which follow from the layers.
void count_model(TrainingStep& step);
// Layers from `first` on work on so many pieces of the tokens, which they divide into evenly.
void take_in_pieces(TrainingStep& step, int first, int pieces);

}  // namespace lockstep
