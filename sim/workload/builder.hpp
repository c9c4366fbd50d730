// Building blocks that the op rules (ops_*.cpp) write a TrainingStep with: values that flow between
// layers, storages, kernels with their traffic, parameters with their casts, saved tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workload/model.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Where a value lies on the ranks of the tensor axis (Shoeybi et al. 2019; Korthikanti et al. 2022).
struct Placement {
  enum class Features : std::uint8_t {
    whole,    // every rank has all features
    split,    // each rank has its part of them
    partial,  // each rank has a summand of all features
  };
  Features features = Features::whole;
  bool tokens_split = false;  // each rank has its part of the sequence

  bool operator==(const Placement&) const = default;
};

// What flows between layers. The shape is that of one sample: {channels, height, width}, permuted
// {height, width, channels}, {tokens, features}, {features}, or {} for the loss. On a mesh it
// is the shape of what one rank has.
struct Value {
  std::vector<std::int64_t> shape;
  int element_bytes = 4;
  int layer = -1;  // index of the producing layer; -1 = the step's input
  int storage = 0;
  bool requires_grad = false;
  bool tokens = false;         // integer ids, shape {tokens}
  bool permuted = false;       // an image whose channels are the last dimension
  bool channels_last = false;  // an image that lies in memory with its channels last
  Placement placement{};
  int kept_storage = -1;  // what a product keeps for backward in place of the value; -1 = the value

  void lay_out_as(const Value& other) {
    permuted = other.permuted;
    channels_last = other.channels_last;
  }
  bool is_image() const { return shape.size() == 3 && !permuted; }
  bool is_sequence() const { return shape.size() == 2; }
  std::int64_t channels() const { return is_image() ? shape[0] : shape.back(); }
};

// The layers' order in which experts that see every token run beside the exchanges of other tokens: the old place
// of each.
std::vector<std::size_t> order_beside_tokens(const std::vector<Layer>& layers);

class StepBuilder {
 public:
  explicit StepBuilder(const StepOptions& options);

  const StepOptions& options() const { return options_; }
  Value image_input(const std::vector<std::int64_t>& shape);
  // Of sequences of so many tokens, of which a rank of the context axis has its share.
  Value token_input(std::int64_t tokens);

  // Elements and bytes of the whole local batch. Throws ModelError when they do not fit.
  std::int64_t elements(const Value& value) const;
  double bytes(const Value& value) const;
  std::int64_t rows(const Value& value) const;  // vectors along the last dimension

  int new_storage(double size, int layer);
  int storage_owner(int storage) const { return storages_[storage].owner; }
  double storage_bytes(int storage) const { return storages_[storage].bytes; }

  bool autocast() const { return is_autocast(options_.precision) || options_.autocast; }
  // Weights are fp32, and autocast copies them: frozen ones, trained ones.
  bool casts_weights() const { return is_autocast(options_.precision); }
  bool casts_trained() const { return casts_trained_; }
  Freezing& freezing() { return freezing_; }
  // Frozen weights are kept in half precision, whatever trained ones are.
  bool keeps_half() const { return options_.fine_tuning.frozen.half && matmul_bytes() == 2; }
  // As transformers has it when blocks with adapters are computed again.
  bool inputs_require_gradients() const {
    return options_.fine_tuning.adapters && options_.activation_checkpointing;
  }
  int matmul_bytes() const { return activation_bytes(options_.precision); }
  int weight_bytes() const { return parameter_bytes(options_.precision); }
  MathMode math() const { return math_mode(options_.precision); }
  MathMode matmul_math() const { return matmul_math_mode(options_.precision); }

  std::size_t layer_count() const { return step_.layers.size(); }
  const Layer& layer(int index) const { return step_.layers[index]; }
  // The name of an exchange layer; numbered where another one has it.
  std::string unused_name(const std::string& name);
  // Exchanged copies of values, by the name of their layer: each is made once.
  std::map<std::string, Value>& exchanged() { return exchanged_; }
  // The last reader of that exchange's output repeats it in backward.
  void repeat_in_backward(int layer, const AxisExchange& exchange) { repeated_[layer] = exchange; }
  // The product that gives the logits of layer `logits`, and all layers after it, work on so many pieces.
  void take_in_pieces(int logits, std::int64_t pieces);
  // So large a share of the tokens' choices of experts finds no place.
  void drops_tokens(double share) { step_.dropped_tokens = share; }
  // Gradient sums of outputs read more than once, totals; the builder is spent afterwards.
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
  struct Owner {  // of a named parameter: where it lives, who else reads it
    int layer = 0;
    int parameter = 0;  // of the layer's
    std::int64_t count = 0;
    bool cast = false;  // autocast keeps one half-precision copy per parameter and step
  };

  StepOptions options_;
  Freezing freezing_;
  bool casts_trained_;
  TrainingStep step_;
  std::vector<Storage> storages_;
  std::vector<int> readers_;  // per layer: how many gradients flow back into its output
  std::map<std::string, Owner> owners_;
  std::map<std::string, int> names_;  // of exchange layers: how often
  std::map<std::string, Value> exchanged_;
  std::map<int, AxisExchange> repeated_;  // by layer
  int first_in_pieces_ = -1, pieces_ = 1;
};

// Writes one layer. The layer is complete when done() has been called with its output.
class LayerWriter {
 public:
  LayerWriter(StepBuilder& builder, const std::string& name, const std::string& kind,
              const std::string& block, const std::vector<Value>& inputs);

  StepBuilder& step() { return builder_; }
  int index() const { return index_; }
  bool backward_needed() const { return backward_needed_; }

  // Declares a parameter. `matmul`: autocast casts it to half precision once per step (fact 22).
  void parameter(const std::string& suffix, std::vector<std::int64_t> shape, bool matmul = false);
  // The gradient of the last parameter has so many elements.
  void whole_gradient(std::int64_t elements) { layer_.parameters.back().gradient_count = elements; }
  // The last parameter declared is trained; so is the one that is read.
  bool trains_last() const { return trains_last_; }
  // Matrices declared from here on are quantised where they are frozen.
  void quantize_matrices() { quantizes_ = true; }
  void starts_gradients() { layer_.starts_gradients = true; }
  // Reads a parameter that another layer owns (tied weights).
  void tied_parameter(const std::string& owner, const std::vector<std::int64_t>& shape);
  void buffers(int count, double bytes, int counters);
  // Records an evaluated argument of the operator; a second value replaces the first.
  void attribute(const std::string& name, std::int64_t value);

  // What a matmul sees of `x` under autocast: a half-precision copy where x is fp32.
  Value matmul_input(const Value& x);
  // What an op on autocast's fp32 list sees of `x`: an fp32 copy where x is half precision.
  Value full_precision(const Value& x);

  Kernel& forward(KernelKind kind, double read, double written, double flops = 0);
  Kernel& backward(KernelKind kind, double read, double written, double flops = 0,
                   Pass pass = Pass::backward);
  // Backward work that runs after everything else of the layer, e.g. the gradient of a cast.
  Kernel& late_backward(KernelKind kind, double read, double written);
  // A view: host work only.
  void views(int forward_operators, int backward_operators);
  // Matrix multiply of `batch` products m x k times k x n.
  Kernel& gemm(Pass pass, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1);

  void save(const Value& value, const std::string& name);
  SavedTensor& save_new(const std::string& name, double bytes);
  void flow(GradientFlow flow) { layer_.flow = flow; }
  void workspace(double forward_bytes, double backward_bytes);
  void sums_columns(std::int64_t rows, std::int64_t columns) {
    layer_.summed_rows = rows;
    layer_.summed_columns = columns;
  }
  void shared_buffer(double bytes) { layer_.shared_buffer_bytes = bytes; }
  void host_workspace(double backward_bytes) {
    layer_.host_backward_workspace_bytes = backward_bytes;
  }
  void casts_gradient_last() { layer_.casts_gradient_last = true; }
  void stays_wide() { layer_.wide = true; }
  void attends() { layer_.is_attention = true; }
  void forward_exchange(const AxisExchange& exchange) {
    layer_.forward_exchanges.push_back(exchange);
  }
  void backward_exchange(const AxisExchange& exchange) {
    if (backward_needed_) layer_.backward_exchanges.push_back(exchange);
  }
  // Parameters declared from here on are those of experts.
  void owns_experts(bool experts) { owns_experts_ = experts; }
  // Gradients of parameters declared from here on are summands of those of the tensor ranks.
  void sums_gradients_over_tensor(bool sums) { sums_over_tensor_ = sums; }

  Value output(std::vector<std::int64_t> shape, int element_bytes);   // freshly allocated
  Value view_of(const Value& base, std::vector<std::int64_t> shape);  // shares its storage
  Value done(const Value& result);

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
  int gradients_ = 0;  // parameters whose gradient this layer's backward accumulates
  std::vector<Kernel> late_;
};

}  // namespace lockstep
