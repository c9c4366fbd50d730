// The builder with which the rules of operators (ops_*.cpp) write a TrainingStep: values that flow
// between layers, storages, kernels with their traffic, parameters with their casts, saved tensors.
// A rule reads Values, writes one or more layers, and returns the Value that the next operator
// reads:
//
//   LayerWriter layer = call.layer();                      // begins a layer
//   layer.forward(KernelKind::elementwise, read, written); // its kernels, in execution order
//   const Value y = layer.output(shape, element_bytes);    // its output
//   layer.save(y, "output");                               // kept for its backward
//   return layer.done(y);                                  // appends the layer to the step
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workload/model.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Distribution of a value over the ranks of the tensor axis (Shoeybi et al. 2019; Korthikanti et
// al. 2022). placement.cpp inserts the exchanges (AxisExchange: collectives of a layer over a mesh
// axis) that turn one placement into another.
struct Placement {
  enum class Features : std::uint8_t {
    whole,    // every rank has all features
    split,    // each rank has a part of the features
    partial,  // each rank has a summand of all features
  };
  Features features = Features::whole;
  bool tokens_split = false;  // each rank has a part of the sequence (sequence parallelism)

  bool operator==(const Placement&) const = default;
};

// A tensor that flows from one layer to the next. The shape is that of one sample: {channels,
// height, width}, permuted {height, width, channels}, {tokens, features}, {features}, or {} for the
// loss. On a mesh it is the shape of one rank's part.
struct Value {
  std::vector<std::int64_t> shape;
  int element_bytes = 4;
  int layer = -1;   // index of the producing layer; -1 = the step's input
  int storage = 0;  // id of the memory block; views share it
  bool requires_grad = false;
  bool tokens = false;         // integer ids, shape {tokens}
  bool permuted = false;       // an image whose channels are the last dimension
  bool channels_last = false;  // an image whose channels are last in memory
  Placement placement{};
  // Storage that a product saves for backward in place of the value: the rank's own part, if
  // backward gathers the value a second time. -1 = the value itself.
  int kept_storage = -1;

  void lay_out_as(const Value& other) {
    permuted = other.permuted;
    channels_last = other.channels_last;
  }
  bool is_image() const { return shape.size() == 3 && !permuted; }
  bool is_sequence() const { return shape.size() == 2; }
  std::int64_t channels() const { return is_image() ? shape[0] : shape.back(); }
};

// The order of layers in which shared experts (experts that process every token) overlap with the
// exchanges of tokens: result[i] is the old index of the layer whose new index is i. It is 0, 1, 2,
// ... if the step has no such experts. Implemented in shared_experts.cpp.
std::vector<std::size_t> order_beside_tokens(const std::vector<Layer>& layers);

// Collects the layers of one TrainingStep and the state that they share: storages, owners of
// parameters, exchanges that later readers may reuse. finish() must be called once, after the last
// layer.
class StepBuilder {
 public:
  explicit StepBuilder(const StepOptions& options);

  const StepOptions& options() const { return options_; }
  // The step's input: images of {channels, height, width}.
  Value image_input(const std::vector<std::int64_t>& shape);
  // The step's input: sequences of `tokens` token ids. The value has the part of one context rank.
  // REQUIRES: the ranks of the context axis divide `tokens`.
  Value token_input(std::int64_t tokens);

  // Elements and bytes of the whole local batch. Throws ModelError if they do not fit in 63 bits.
  std::int64_t elements(const Value& value) const;
  double bytes(const Value& value) const;
  std::int64_t rows(const Value& value) const;  // number of vectors along the last dimension

  // A new memory block of `size` bytes that the forward of `layer` allocates (-1 = the step's
  // input, which exists before forward); returns its id.
  int new_storage(double size, int layer);
  int storage_owner(int storage) const { return storages_[storage].owner; }
  double storage_bytes(int storage) const { return storages_[storage].bytes; }

  // Whether operators follow autocast's lists of operator types.
  bool autocast() const { return is_autocast(options_.precision) || options_.autocast; }
  // casts_weights(): whether autocast casts frozen fp32 weights, for each product. casts_trained():
  // whether it casts trained weights, once per step.
  bool casts_weights() const { return is_autocast(options_.precision); }
  bool casts_trained() const { return casts_trained_; }
  Freezing& freezing() { return freezing_; }
  // Whether frozen weights are stored in half precision, independent of the type of trained
  // weights.
  bool keeps_half() const { return options_.fine_tuning.frozen.half && matmul_bytes() == 2; }
  // Whether embeddings' outputs require gradients although the embeddings are frozen. transformers
  // does so when blocks with adapters are checkpointed.
  bool inputs_require_gradients() const {
    return options_.fine_tuning.adapters && options_.activation_checkpointing;
  }
  // Bytes of one element of the inputs and outputs of products, and of a stored weight.
  int matmul_bytes() const { return activation_bytes(options_.precision); }
  int weight_bytes() const { return parameter_bytes(options_.precision); }
  // Numeric modes of convolutions and elementwise work, and of matrix products and attention.
  MathMode math() const { return math_mode(options_.precision); }
  MathMode matmul_math() const { return matmul_math_mode(options_.precision); }

  std::size_t layer_count() const { return step_.layers.size(); }
  const Layer& layer(int index) const { return step_.layers[index]; }
  // `name` for an exchange layer, with a number at its end if an earlier exchange layer has that
  // name.
  std::string unused_name(const std::string& name);
  // Results of exchanges, so that each exchange is written once. The key consists of the value, the
  // kind, and the scope of the readers: the step, a block or one layer (exchanges.cpp).
  std::map<std::string, Value>& exchanged() { return exchanged_; }
  // Makes the last reader of exchange layer `layer` repeat `exchange` in backward, because the
  // gathered value is not stored. Every reader gets the gathered copy as backward workspace.
  void repeat_in_backward(int layer, const AxisExchange& exchange) { repeated_[layer] = exchange; }
  // Chunked loss: the layers from the head to the loss process the tokens in `pieces` pieces. The
  // head is the nearest matrix product at or before layer `logits`. Throws ModelError if there is
  // no such product.
  void take_in_pieces(int logits, std::int64_t pieces);
  // Records the share (0 .. 1) of router choices that find their expert full.
  void drops_tokens(double share) { step_.dropped_tokens = share; }
  // Completes the step by the work that depends on the whole graph: the order of shared experts,
  // sums of gradients of outputs that several layers read, pieces, repeated exchanges, checkpointed
  // layers, totals. Throws ConfigError if ExpertOverlap::shared finds no experts to move. It must
  // be called once; the builder is empty afterwards.
  TrainingStep finish();

 private:
  friend class LayerWriter;
  void put_shared_experts_beside_tokens();
  void sum_gradients(std::size_t index);
  void repeat_exchanges();
  void choose_checkpoints();
  void leave_out_last_exchanges();
  struct Storage {
    double bytes = 0;
    int owner = -1;
  };
  // Place of a named parameter, so that a later layer can share it (tied weights).
  struct Owner {
    int layer = 0;
    int parameter = 0;  // index among the layer's parameters
    std::int64_t count = 0;
    bool cast = false;  // autocast stores one half-precision copy per parameter and step
  };

  StepOptions options_;
  Freezing freezing_;
  bool casts_trained_;
  TrainingStep step_;
  std::vector<Storage> storages_;
  std::vector<int> readers_;  // by layer: number of gradients that flow back into its output
  std::map<std::string, Owner> owners_;
  std::map<std::string, int> names_;  // uses of each name of an exchange layer
  std::map<std::string, Value> exchanged_;
  std::map<int, AxisExchange> repeated_;  // by exchange layer
  int first_in_pieces_ = -1, pieces_ = 1;
};

// Writes one layer. Kernels are executed in the order in which they are added; only the kernels of
// late_backward() come last. The constructor counts the layer as a reader of each input that
// requires a gradient; done() appends the layer to the step.
// REQUIRES: done() is called once, with a Value from output() or view_of(), and before the next
// layer is begun.
class LayerWriter {
 public:
  LayerWriter(StepBuilder& builder, const std::string& name, const std::string& kind,
              const std::string& block, const std::vector<Value>& inputs);

  StepBuilder& step() { return builder_; }
  int index() const { return index_; }
  // Whether an input requires a gradient, so that the layer must compute it.
  bool backward_needed() const { return backward_needed_; }

  // Declares the parameter "LAYER.suffix", or "LAYER" if the suffix is empty, and asks Freezing
  // whether it is trained. `matmul`: a product reads the parameter, so autocast casts it to half
  // precision, a trained one once per step (fact 22), a frozen one for each product. Writes the
  // kernels of these casts, and of the sum with a main gradient (has_main_gradients()).
  void parameter(const std::string& suffix, std::vector<std::int64_t> shape, bool matmul = false);
  // Says that backward writes a gradient of `elements` elements for the last declared parameter: an
  // embedding of which this rank uses only some rows still gets a gradient for the whole table.
  void whole_gradient(std::int64_t elements) { layer_.parameters.back().gradient_count = elements; }
  // Whether the last declared or tied parameter is trained.
  bool trains_last() const { return trains_last_; }
  // Frozen matrices of products that are declared after this call are stored quantised.
  void quantize_matrices() { quantizes_ = true; }
  // The output requires a gradient even if no input and no parameter does. Call it before output().
  void starts_gradients() { layer_.starts_gradients = true; }
  // Uses the weight of the earlier layer `owner` (tied weights). Throws ModelError if that layer
  // has no weight, or a weight of another size.
  void tied_parameter(const std::string& owner, const std::vector<std::int64_t>& shape);
  // Adds `count` buffer tensors of `bytes` bytes in total, of which `counters` are int64 counters.
  void buffers(int count, double bytes, int counters);
  // Records an evaluated argument of the operator; a second value replaces the first.
  void attribute(const std::string& name, std::int64_t value);

  // `x` in the type in which a product reads it: under autocast a half-precision copy of an fp32
  // value, else `x`. Adds the kernels of the cast and of its gradient.
  Value matmul_input(const Value& x);
  // `x` for an operator that works in fp32 (for example one on autocast's fp32 list): an fp32 copy
  // of a half-precision value, else `x`. Adds the kernels of the cast and of its gradient.
  Value full_precision(const Value& x);

  // These functions add a kernel; `read` and `written` are in bytes. The reference is valid until
  // the next kernel of forward or of backward, respectively, is added.
  Kernel& forward(KernelKind kind, double read, double written, double flops = 0);
  Kernel& backward(KernelKind kind, double read, double written, double flops = 0,
                   Pass pass = Pass::backward);
  // Adds backward work that runs after all other backward work of the layer, for example the
  // gradient of a cast.
  Kernel& late_backward(KernelKind kind, double read, double written);
  // Adds views: operators that cost host time but launch no kernel.
  void views(int forward_operators, int backward_operators);
  // Adds `batch` independent products of an m x k with a k x n matrix.
  Kernel& gemm(Pass pass, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1);

  // Saves an existing value for backward. A storage that this layer has already saved counts once.
  void save(const Value& value, const std::string& name);
  // Saves a new tensor of `bytes` bytes for backward, which this layer's forward allocates. The
  // reference is valid until the next tensor is saved.
  SavedTensor& save_new(const std::string& name, double bytes);
  // Sets how backward makes the inputs' gradients; GradientFlow::fresh if it is not called.
  void flow(GradientFlow flow) { layer_.flow = flow; }
  // Adds temporary memory in bytes during forward and during backward.
  void workspace(double forward_bytes, double backward_bytes);
  // Says that backward sums the columns of a matrix of this shape, for the gradient of a bias.
  void sums_columns(std::int64_t rows, std::int64_t columns) {
    layer_.summed_rows = rows;
    layer_.summed_columns = columns;
  }
  // Requests the buffer that all layers share and that is never freed (Layer::shared_buffer_bytes).
  void shared_buffer(double bytes) { layer_.shared_buffer_bytes = bytes; }
  // Sets the additional temporary memory of backward on a CPU.
  void host_workspace(double backward_bytes) {
    layer_.host_backward_workspace_bytes = backward_bytes;
  }
  // Says that backward ends with a cast of the input's gradient, before whose allocation the
  // temporaries are freed.
  void casts_gradient_last() { layer_.casts_gradient_last = true; }
  // Says that the layer and its parameters are fp32 in a half-precision step, between two casts.
  void stays_wide() { layer_.wide = true; }
  // Says that the layer computes attention (Layer::is_attention).
  void attends() { layer_.is_attention = true; }
  // These functions add a collective before the layer's kernels; backward_exchange() does nothing
  // if no input requires a gradient.
  void forward_exchange(const AxisExchange& exchange) {
    layer_.forward_exchanges.push_back(exchange);
  }
  void backward_exchange(const AxisExchange& exchange) {
    if (backward_needed_) layer_.backward_exchanges.push_back(exchange);
  }
  // Parameters that are declared after this call belong to experts.
  void owns_experts(bool experts) { owns_experts_ = experts; }
  // If `sums`, the gradients of parameters that are declared after this call are summands, which
  // the tensor ranks all-reduce.
  void sums_gradients_over_tensor(bool sums) { sums_over_tensor_ = sums; }

  Value output(std::vector<std::int64_t> shape, int element_bytes);   // freshly allocated
  Value view_of(const Value& base, std::vector<std::int64_t> shape);  // shares its storage
  Value done(const Value& result);  // completes the layer; returns the value that others read

 private:
  void frozen_parameter(Parameter parameter, bool matmul);
  void leave_out_frozen();
  Kernel& add(std::vector<Kernel>& list, KernelKind kind, Pass pass, double read, double written);

  StepBuilder& builder_;
  Layer layer_;
  int index_;
  bool backward_needed_ = false;
  bool sums_over_tensor_ = false;
  bool owns_experts_ = false;
  bool trains_last_ = false;
  bool quantizes_ = false;
  int gradients_ = 0;  // number of parameters whose gradient this layer's backward accumulates
  std::vector<Kernel> late_;  // kernels of late_backward(), appended by done()
};

}  // namespace lockstep
