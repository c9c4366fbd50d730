// The work of one micro-batch on one device, at one batch size and precision, as an ordered list of
// layers. Each layer has kernels (FLOPs and bytes), parameters, saved tensors and, on a mesh,
// exchanges with other ranks.
// The later parts of the program read this list: cost models (sim/costs) compute the time of the
// kernels, strategies execute the layers, and the memory model (sim/memory) follows the saved
// tensors. A step contains no seconds, so the same step serves every device.
//
//   model file --expand--> layers --low precision--> --compile--> TrainingStep
//   forward:  layers[0], layers[1], ..., layers[n-1]     backward:  layers[n-1], ..., layers[0]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/mesh.hpp"
#include "workload/precision.hpp"

namespace lockstep {

// The kind of a device kernel. It selects the efficiency and the formula by which the kernel's time
// is computed.
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

// The part of the step to which a kernel belongs. A layer with a weight computes two gradients in
// backward: that of its input (data_gradient) and that of its weight (weight_gradient). `backward`
// is for kernels of operators that do not separate the two.
enum class Pass { forward, data_gradient, weight_gradient, backward };

// Geometry of a convolution, for its whole local batch of `images`; sizes in elements.
struct ConvGeometry {
  std::int64_t channels_in = 0, channels_out = 0, groups = 1;
  int kernel_h = 1, kernel_w = 1, stride = 1, dilation = 1;
  std::int64_t height_in = 0, width_in = 0, height_out = 0, width_out = 0, images = 0;
  bool channels_last = false;  // the input's channels are last in memory
};

// One device kernel, or `launches` kernels that an eager framework runs for one operator and whose
// time is computed together. FLOPs count a multiply-add as two. Bytes are the ideal traffic: every
// input is read once and every output is written once, at the element size of the precision. All
// numbers cover the whole local batch.
struct Kernel {
  KernelKind kind = KernelKind::elementwise;
  Pass pass = Pass::forward;
  MathMode math = MathMode::fp32;
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // for gemm, convolution, attention
  ConvGeometry conv;                            // for convolution only
  // Backward of max pooling with channels first: elements of the input, each of which searches the
  // windows that contain it. 0 for all other kernels.
  std::int64_t searching_elements = 0;
  int launches = 1;  // device kernels launched
  // ATen operators that the host dispatches for this entry in eager mode. An entry with operators
  // but without launches is only host work: explicit views, and in backward the AccumulateGrad node
  // of each parameter.
  int operators = 1;
  bool quantises = false;  // casts an operand of the layer's product to fp8 or fp4
  double speed = 1;        // of a product, relative to the library's best kernels of its mode
  // A layout conversion (NCHW to NHWC or back) for a convolution whose matrix units need the other
  // layout.
  bool changes_layout = false;
};

// One weight tensor that a layer owns on this rank. On a mesh, `shape` and `count` describe the
// rank's part.
struct Parameter {
  std::string name;  // "features.0.weight"
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;  // product of shape
  bool trainable = true;
  double stored_bytes = 0;  // bytes of a whole frozen tensor; 0 = the step's precision decides
  // Whether every tensor rank holds this parameter, but only a part of the tokens or heads on each
  // rank reads it. The gradient on a rank is then a summand, and the tensor ranks all-reduce it
  // (fact H18).
  bool partial_over_tensor = false;
  // whether it belongs to an expert; the ranks of the expert axis have different ones (fact H5)
  bool expert = false;
  // Elements of the gradient that backward writes, if they are more than the parameter has (a
  // rank's rows of an embedding, whose gradient covers the whole table); 0 = `count`.
  std::int64_t gradient_count = 0;
  // Bytes of one element in FSDP's all-gather (1 for weights that travel as fp8); 0 = the strategy
  // decides.
  double gathered_bytes = 0;

  std::int64_t gradient_elements() const { return gradient_count > 0 ? gradient_count : count; }
  // Bytes of the tensor on a device that stores each element of a trained parameter in
  // `element_bytes` bytes.
  double bytes(double element_bytes) const {
    return stored_bytes > 0 ? stored_bytes : static_cast<double>(count) * element_bytes;
  }
};

// A tensor that autograd stores from forward until the backward of the layer that saved it has run.
// Several layers may save the same storage. The storage then counts once and lives until the last
// of their backwards.
struct SavedTensor {
  std::string name;          // "input", "mask", ...
  double bytes = 0;          // for the whole local batch
  int storage = 0;           // tensors with the same id share a storage, which counts once
  int produced_by = 0;       // layer whose forward allocates the storage
  bool weight_copy = false;  // autocast's half-precision copy of a parameter (fact 22)
  bool mask = false;  // mask of a dropout: 1 byte per element on a GPU, the output's type on a CPU
  bool with_output = false;  // written by the kernel that writes the output
  bool held = false;         // only a reference in the host's program holds it; no kernel reads it
};

// The collective by which the ranks of one mesh axis exchange activations or gradients of a layer.
enum class ExchangeKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  shift,  // from each rank to the next of a ring
};
// The compute that overlaps with a running exchange.
enum class Beside : std::uint8_t {
  nothing,    // none: the next kernel waits for the exchange
  own_layer,  // the kernels of the layer that has the exchange
  // Backward of a product: the gradient of its input. The gradient of its weight waits for the
  // exchange.
  input_gradient,
  // Forward: all layers until the one that reads the exchanged value. Backward: the exchange starts
  // when its gradient has been computed, and overlaps with all layers down to the source of the
  // exchanged value.
  reader,
  // Backward of an exchange layer: the weight gradients of the products that read its output. The
  // input gradients of these products are complete when the exchange starts.
  weight_gradient
};
// One collective of a layer over one axis of the mesh, from this rank's point of view.
struct AxisExchange {
  Axis axis = Axis::tensor;
  ExchangeKind kind = ExchangeKind::all_reduce;
  double bytes = 0;  // the full logical size, as for collective_cost() (costs/collective.hpp)
  Beside beside = Beside::nothing;
  // Whether the host blocks until the message sizes are known, as with experts without a capacity,
  // whose token counts are data.
  bool host_waits = false;
};

// How backward turns the gradient of a layer's output into the gradients of its inputs. This
// determines the number of gradient tensors.
enum class GradientFlow : std::uint8_t {
  fresh,   // backward allocates one gradient per input
  passes,  // inputs of the output's size get the output's gradient itself: add, views
  slices,  // inputs get slices of the output's gradient: concat
};

// The role of a layer at the edge of a part of the model (workload/partition.hpp).
enum class Boundary : std::uint8_t {
  none,
  receive,  // the output arrives from the previous part, to which backward sends its gradient
  send,     // the input goes to the next part, which sends its gradient back
};

// One node of the step's graph: a leaf module of the network, an operator of its forward(), a loss,
// or an exchange between ranks. The index of a layer in TrainingStep::layers identifies it; inputs
// always have smaller indices.
struct Layer {
  std::string name;  // "layer1.0.conv2"
  std::string kind;  // "conv", "batch_norm", ... as written in the model file
  // Path of the innermost enclosing repeated block ("layer1.0"), which is FSDP's wrapping unit and
  // the unit of activation checkpointing; "" when the layer stands directly in the root.
  std::string block;
  // The operator's evaluated arguments (docs/model-format.md), with probabilities in millionths.
  // The calibration builds a real network from them.
  std::vector<std::pair<std::string, std::int64_t>> attributes;
  std::string tied_to;  // name of an earlier layer's parameter that this layer reads ("wte.weight")
  int tied_layer = -1;  // index of the layer that owns the parameter
  int tied_parameter = 0;  // index among the parameters of that layer
  std::vector<Parameter> parameters;
  double buffer_bytes = 0;  // BatchNorm's running statistics, which DDP broadcasts (fact 15)
  int buffers = 0;          // number of buffer tensors
  int counters = 0;         // number of int64 counters among the buffers: batches seen
  // Bytes of a buffer that stays allocated from step to step. All layers of a rank share one
  // buffer, which has the size of the largest request.
  double shared_buffer_bytes = 0;
  std::vector<Kernel> forward;     // in execution order
  std::vector<Kernel> backward;    // in execution order; gradients ready after the last one
  std::vector<int> inputs;         // indices of producing layers; -1 = the step's input
  double output_bytes = 0;         // forward output, whole local batch
  int output_storage = 0;          // storage id of the output (in-place and view layers share)
  std::vector<SavedTensor> saved;  // tensors that this layer's backward needs
  GradientFlow flow = GradientFlow::fresh;
  double forward_workspace_bytes = 0;  // temporary during its forward / backward
  double backward_workspace_bytes = 0;
  // Shape of the matrix whose columns a matrix product sums for its bias's gradient; 0 = no bias.
  std::int64_t summed_rows = 0, summed_columns = 0;
  // Whether backward ends with a cast of the input's gradient, so that the temporaries are freed
  // before that gradient is allocated.
  bool casts_gradient_last = false;
  double host_backward_workspace_bytes = 0;  // additional backward workspace on a CPU
  // Collectives over mesh axes, in this order, before the layer's own kernels unless they overlap
  // with them (AxisExchange::beside). Most are in a layer of kind "exchange", whose output is the
  // value that arrives; its backward has the reverse collective.
  std::vector<AxisExchange> forward_exchanges, backward_exchanges;
  Boundary boundary = Boundary::none;
  // Whether the output requires a gradient although no earlier parameter is trained: transformers'
  // enable_input_require_grads, which activation checkpointing needs.
  bool starts_gradients = false;
  // computes the loss from the network's output; not part of the network's module
  bool is_loss = false;
  bool is_attention = false;
  // Number of token pieces of a chunked loss; 1 = no chunks. The head and the layers after it
  // process one piece after the other, and compute the gradients of the head's weight and input in
  // forward (torchtitan 0.3.0, components/loss.py: ChunkedLossWrapper). Kernels and exchanges cover
  // all pieces; tensors have the size of one piece.
  int pieces = 1;
  bool wide = false;  // fp32 with its parameters in a half-precision step, between casts
  // `checkpointed`: activation checkpointing runs this layer's forward a second time in backward.
  // `keeps_output`: the second run omits the layer's products with the quantization of their
  // operands, or the exchange of an exchange layer, because their results stay in memory.
  bool checkpointed = false;
  bool keeps_output = false;
  // Whether the wrapper of a compiled graph launches the kernels. The host then has no cost for a
  // module, an autograd node or Python dispatch.
  bool compiled = false;
};

// Whether activation checkpointing runs this forward kernel of the layer a second time in backward.
bool runs_again(const Layer& layer, const Kernel& kernel);
// Matrix products, convolutions and fused attention: the kernels whose FLOPs count in MFU.
bool is_product(const Kernel& kernel);
// Whether one of the kernels has this kind.
bool uses(const std::vector<Kernel>& kernels, KernelKind kind);
// FLOPs that the model itself needs for a kernel; 0 for all but products. The backward of fused
// attention recomputes the scores, which takes a fifth of its FLOPs and does not count.
double model_flops(const Kernel& kernel);
// The kernels by which autograd sums the gradients of one output that `additions` + 1 layers read.
Kernel gradient_sum(int additions, double output_bytes);

// The value of an attribute; `fallback` if the layer has no attribute of that name.
std::int64_t attribute(const Layer& layer, std::string_view name, std::int64_t fallback = 0);

// The whole step: layers and totals. build_step() of model.hpp makes one from a model file; cut()
// of partition.hpp divides it into pipeline stages.
struct TrainingStep {
  std::string model;
  Precision precision = Precision::fp32;
  std::int64_t samples = 0;               // local batch (one micro-batch)
  std::int64_t tokens = 0;                // samples * sequence; 0 for models without tokens
  std::vector<std::int64_t> input_shape;  // of one sample: channels, height, width; or tokens
  double input_bytes = 0;                 // copied from host to device for one micro-batch
  std::vector<Layer> layers;              // forward order; backward is the reverse
  std::int64_t parameter_count = 0;       // trainable, shared parameters counted once
  double forward_flops = 0;               // of the model, without recomputation
  double backward_flops = 0;
  double dropped_tokens = 0;  // share of router choices that find their expert full; 0 .. 1
  // Whether times from a measured profile may be used for the layers. False if a profile does not
  // measure such layers: a rank's part of a layer, a later token slice, frozen or compiled layers,
  // layers of a chunked loss, products in fp8 or fp4.
  bool whole_layers = true;
  // Whether one CUDA graph launches forward and backward of a micro-batch.
  bool captured = false;
};

// An upper bound of the storage ids of the step: every id is below it.
int storage_count(const TrainingStep& step);

// Sets parameter_count, forward_flops and backward_flops of the step from its layers. Throws
// ModelError if the parameters do not fit in 63 bits.
void count_model(TrainingStep& step);
// Makes all layers from `first` (the head) on process the tokens in `pieces` pieces, as in a
// chunked loss (Layer::pieces).
// REQUIRES: `pieces` divides the tokens of the micro-batch.
void take_in_pieces(TrainingStep& step, int first, int pieces);

}  // namespace lockstep
