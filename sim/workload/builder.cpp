// Implements the builder of training steps: parameters with autocast's casts (fact 22), tied
// weights, frozen and quantised weights, and the passes over the finished graph.
// Host counts follow eager PyTorch: `operators` counts ATen operators that do work (a Linear is one
// addmm), explicit views, and in backward the AccumulateGrad node of each parameter.
#include "workload/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workload/checked.hpp"

namespace lockstep {

StepBuilder::StepBuilder(const StepOptions& options)
    : options_(options),
      freezing_(options.fine_tuning),
      casts_trained_(is_autocast(options.precision)) {
  step_.precision = options.precision;
  step_.samples = options.samples;
  // A frozen base in half precision under autocast: the step has pure half precision, and only
  // trained weights are fp32 and are cast.
  if (!options.fine_tuning.frozen.half || !casts_trained_) return;
  const bool fp16 = options.precision == Precision::amp_fp16;
  options_.precision = fp16 ? Precision::pure_fp16 : Precision::pure_bf16;
  options_.autocast = true;
}

Value StepBuilder::image_input(const std::vector<std::int64_t>& shape) {
  Value value;
  value.shape = shape;
  value.element_bytes = parameter_bytes(options_.precision);
  value.channels_last = options_.channels_last;
  step_.input_shape = shape;
  value.storage = new_storage(bytes(value), -1);
  // Images arrive as fp32 plus one int64 label per sample.
  step_.input_bytes = static_cast<double>(elements(value)) * 4 + 8.0 * options_.samples;
  return value;
}

Value StepBuilder::token_input(std::int64_t tokens) {
  Value value;
  value.shape = {tokens / options_.parallel.context.size};
  value.element_bytes = 8;
  value.tokens = true;
  step_.input_shape = {tokens};
  value.storage = new_storage(bytes(value), -1);
  step_.tokens = checked_multiply(options_.samples, tokens);
  step_.input_bytes = 2 * bytes(value);  // ids and targets, int64
  return value;
}

std::int64_t StepBuilder::elements(const Value& value) const {
  std::int64_t count = options_.samples;
  for (const std::int64_t size : value.shape) count = checked_multiply(count, size);
  return count;
}

double StepBuilder::bytes(const Value& value) const {
  return static_cast<double>(checked_multiply(elements(value), value.element_bytes));
}

std::int64_t StepBuilder::rows(const Value& value) const {
  return value.shape.empty() ? options_.samples : elements(value) / value.shape.back();
}

int StepBuilder::new_storage(double size, int layer) {
  storages_.push_back({size, layer});
  return static_cast<int>(storages_.size()) - 1;
}

// Each addition reads two tensors and writes one. FLOPs assume elements of 4 bytes; they never
// limit the time of an addition.
Kernel gradient_sum(int additions, double output_bytes) {
  Kernel kernel;
  kernel.pass = Pass::backward;
  kernel.flops = additions * output_bytes / 4;
  kernel.bytes_read = 2 * additions * output_bytes;
  kernel.bytes_written = additions * output_bytes;
  kernel.launches = additions;
  kernel.operators = additions;
  return kernel;
}

double model_flops(const Kernel& kernel) {
  if (!is_product(kernel)) return 0;
  // Fused attention recomputes the scores: it has 5 products, but the model needs only 4.
  const bool again = kernel.kind == KernelKind::attention && kernel.pass != Pass::forward;
  return again ? 0.8 * kernel.flops : kernel.flops;
}

void count_model(TrainingStep& step) {
  step.parameter_count = 0;
  step.forward_flops = step.backward_flops = 0;
  for (const Layer& layer : step.layers) {
    for (const Parameter& parameter : layer.parameters) {
      if (parameter.trainable) {
        step.parameter_count = checked_add(step.parameter_count, parameter.count);
      }
    }
    for (const Kernel& kernel : layer.forward) step.forward_flops += model_flops(kernel);
    for (const Kernel& kernel : layer.backward) step.backward_flops += model_flops(kernel);
  }
}

int storage_count(const TrainingStep& step) {
  int count = 0;
  for (const Layer& layer : step.layers) {
    count = std::max(count, layer.output_storage + 1);
    for (const SavedTensor& saved : layer.saved) count = std::max(count, saved.storage + 1);
  }
  return count;
}

// The first layer of a name is called "mlp.all_gather", the second "mlp.all_gather_2", and so on.
std::string StepBuilder::unused_name(const std::string& name) {
  const int used = ++names_[name];
  return used == 1 ? name : fmt::format("{}_{}", name, used);
}

// Autograd sums the gradients of an output that several layers read, by one addition after the
// other, before the backward of the layer that wrote the output.
void StepBuilder::sum_gradients(std::size_t index) {
  Layer& layer = step_.layers[index];
  // Megatron-LM's fused projections read a shared exchange as one product, so there is only one
  // gradient.
  const bool one_product =
      !layer.backward_exchanges.empty() && options_.parallel.tensor.shared_exchanges;
  if (readers_[index] < 2 || one_product) return;
  layer.backward.insert(layer.backward.begin(),
                        gradient_sum(readers_[index] - 1, layer.output_bytes));
}

// Goes back from the logits over elementwise layers (soft caps, casts) to the head, the product
// that computes the logits.
void StepBuilder::take_in_pieces(int logits, std::int64_t pieces) {
  while (!uses(step_.layers[logits].forward, KernelKind::gemm)) {
    logits = step_.layers[logits].inputs.front();
    if (logits < 0) throw ModelError("pieces: no product gives the logits");
  }
  first_in_pieces_ = logits;
  pieces_ = static_cast<int>(pieces);
}

// A gathered input that was not stored (keep_gathered = false) is gathered a second time in
// backward. Backward reaches the last reader first; its gather also serves the other readers. Each
// reader has the gathered copy as workspace.
void StepBuilder::repeat_exchanges() {
  for (const auto& [index, exchange] : repeated_) {
    Layer* last = nullptr;
    for (std::size_t i = static_cast<std::size_t>(index) + 1; i < step_.layers.size(); ++i) {
      Layer& reader = step_.layers[i];
      if (std::find(reader.inputs.begin(), reader.inputs.end(), index) == reader.inputs.end()) {
        continue;
      }
      reader.backward_workspace_bytes += exchange.bytes;
      last = &reader;
    }
    if (last != nullptr) last->backward_exchanges.push_back(exchange);
  }
}

// Reorders the layers so that shared experts overlap with the exchanges of tokens, and renumbers
// every index of a layer. Throws ConfigError if the model has no layers to move.
void StepBuilder::put_shared_experts_beside_tokens() {
  const std::vector<std::size_t> order = order_beside_tokens(step_.layers);
  if (std::is_sorted(order.begin(), order.end())) {
    throw parallel_misfit(options_.parallel, "expert.overlap",
                          "no experts that see every token stand beside all-to-alls",
                          "none, or a model with shared experts and `dispatch: all-to-all`");
  }
  std::vector<int> place(order.size());  // new index, by old index
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  const auto move = [&place](int& layer) {
    if (layer >= 0) layer = place[static_cast<std::size_t>(layer)];
  };
  std::vector<Layer> layers;
  std::vector<int> readers;
  for (const std::size_t old : order) {
    Layer& layer = layers.emplace_back(std::move(step_.layers[old]));
    readers.push_back(readers_[old]);
    for (int& input : layer.inputs) move(input);
    for (SavedTensor& saved : layer.saved) move(saved.produced_by);
    move(layer.tied_layer);
  }
  step_.layers = std::move(layers);
  readers_ = std::move(readers);
  std::map<int, AxisExchange> repeated;
  for (const auto& [old, exchange] : repeated_) {
    repeated.emplace(place[static_cast<std::size_t>(old)], exchange);
  }
  repeated_ = std::move(repeated);
  move(first_in_pieces_);
}

// The order is necessary: layer indices must change first, and the sums of gradients must exist
// before the pieces divide a layer's kernels.
TrainingStep StepBuilder::finish() {
  if (options_.parallel.expert.overlap == ExpertOverlap::shared) put_shared_experts_beside_tokens();
  for (std::size_t i = 0; i < step_.layers.size(); ++i) sum_gradients(i);
  if (pieces_ > 1) lockstep::take_in_pieces(step_, first_in_pieces_, pieces_);
  count_model(step_);
  repeat_exchanges();
  if (options_.activation_checkpointing) choose_checkpoints();
  return std::move(step_);
}

bool uses(const std::vector<Kernel>& kernels, KernelKind kind) {
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == kind) return true;
  }
  return false;
}

bool is_product(const Kernel& kernel) {
  return kernel.kind == KernelKind::gemm || kernel.kind == KernelKind::convolution ||
         kernel.kind == KernelKind::attention;
}

// Every input that requires a gradient gets one from this layer.
LayerWriter::LayerWriter(StepBuilder& builder, const std::string& name, const std::string& kind,
                         const std::string& block, const std::vector<Value>& inputs)
    : builder_(builder), index_(static_cast<int>(builder.step_.layers.size())) {
  layer_.name = name;
  layer_.kind = kind;
  layer_.block = block;
  for (const Value& input : inputs) {
    layer_.inputs.push_back(input.layer);
    if (!input.requires_grad) continue;
    backward_needed_ = true;
    ++builder_.readers_[input.layer];
  }
}

std::int64_t attribute(const Layer& layer, std::string_view name, std::int64_t fallback) {
  for (const auto& [key, value] : layer.attributes) {
    if (key == name) return value;
  }
  return fallback;
}

void LayerWriter::attribute(const std::string& name, std::int64_t value) {
  for (auto& [key, existing] : layer_.attributes) {
    if (key == name) {
      existing = value;
      return;
    }
  }
  layer_.attributes.emplace_back(name, value);
}

// A trained parameter adds kernels of its own. With main gradients (Megatron-LM), backward adds the
// bf16 gradient to an fp32 one. Under autocast, forward casts the weight once per step and stores
// the half-precision copy for backward, whose gradient is cast back to fp32.
void LayerWriter::parameter(const std::string& suffix, std::vector<std::int64_t> shape,
                            bool matmul) {
  Parameter parameter;
  parameter.name = suffix.empty() ? layer_.name : layer_.name + "." + suffix;
  parameter.count = 1;
  for (const std::int64_t size : shape) parameter.count = checked_multiply(parameter.count, size);
  parameter.shape = std::move(shape);
  parameter.partial_over_tensor = sums_over_tensor_;
  parameter.expert = owns_experts_;
  trains_last_ = builder_.freezing_.trains(layer_.name, parameter.name);
  if (!trains_last_) return frozen_parameter(std::move(parameter), matmul);
  // peft's modules_to_save trains a copy of the module, and the frozen original remains in memory.
  if (builder_.freezing_.whole(layer_.name)) {
    Parameter original = parameter;
    original.name = layer_.name + ".original." + suffix;
    original.trainable = false;
    if (builder_.keeps_half()) original.stored_bytes = 2.0 * original.count;
    layer_.parameters.push_back(std::move(original));
  }
  ++gradients_;
  if (has_main_gradients(builder_.options_.precision)) {
    const auto count = static_cast<double>(parameter.count);
    late_backward(KernelKind::elementwise, 6 * count, 4 * count);  // bf16 added to fp32
  }
  // Only matrices have a half-precision copy that must be stored; backward does not read biases.
  const bool cast = matmul && builder_.casts_trained();
  const double full = 4.0 * parameter.count;
  const double half = 2.0 * parameter.count;
  if (cast) {
    forward(KernelKind::elementwise, full, half);
    late_backward(KernelKind::elementwise, half, full);
    if (parameter.shape.size() > 1) save_new(suffix + "_half", half).weight_copy = true;
  }
  const int position = static_cast<int>(layer_.parameters.size());
  builder_.owners_[parameter.name] = {index_, position, parameter.count, cast};
  layer_.parameters.push_back(std::move(parameter));
}

// A frozen parameter has no gradient. If it is quantised, it is dequantised into workspace before
// each product, in forward and in backward. Otherwise autocast casts it for each product, because
// it caches only copies of trained weights, and backward needs that copy for the input's gradient.
void LayerWriter::frozen_parameter(Parameter parameter, bool matmul) {
  parameter.trainable = false;
  const auto count = static_cast<double>(parameter.count);
  const bool matrix = parameter.shape.size() > 1;
  const double half = 2 * count;
  if (matmul && matrix && quantizes_) {
    const FrozenOptions& frozen = builder_.options_.fine_tuning.frozen;
    const double wide = count * builder_.matmul_bytes();
    parameter.stored_bytes = quantized_bytes(frozen, parameter.shape.front(), parameter.count);
    forward(KernelKind::elementwise, parameter.stored_bytes, wide, count);
    if (backward_needed_) {
      backward(KernelKind::elementwise, parameter.stored_bytes, wide, count, Pass::data_gradient);
    }
    workspace(wide, wide);
  } else if (matmul && builder_.casts_weights()) {
    forward(KernelKind::elementwise, 2 * half, half);
    if (matrix && backward_needed_) save_new("weight_half", half);
  }
  if (parameter.stored_bytes == 0 && builder_.keeps_half()) parameter.stored_bytes = half;
  builder_.owners_[parameter.name] = {index_, static_cast<int>(layer_.parameters.size()),
                                      parameter.count, false};
  layer_.parameters.push_back(std::move(parameter));
}

// The owner has the parameter and its gradient. This layer adds its own casts and, in the owner's
// backward, the sum of the gradients of both uses.
void LayerWriter::tied_parameter(const std::string& owner, const std::vector<std::int64_t>& shape) {
  const auto found = builder_.owners_.find(owner + ".weight");
  if (found == builder_.owners_.end()) {
    throw ModelError(fmt::format("tied_to: no earlier layer '{}' has a weight", owner));
  }
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count = checked_multiply(count, size);
  if (count != found->second.count) {
    throw ModelError(fmt::format("tied_to: '{}' has {} weights, {} are needed", owner,
                                 found->second.count, count));
  }
  layer_.tied_to = owner + ".weight";
  layer_.tied_layer = found->second.layer;
  layer_.tied_parameter = found->second.parameter;
  const double half = 2.0 * count;
  Layer& owning = builder_.step_.layers[found->second.layer];
  trains_last_ = owning.parameters[layer_.tied_parameter].trainable;
  if (!trains_last_) {
    if (!builder_.casts_weights()) return;
    forward(KernelKind::elementwise, 2 * half, half);
    if (backward_needed_) save_new("weight_half", half);
    return;
  }
  // Autocast caches one half-precision copy per parameter and step, which both uses share.
  if (builder_.casts_trained()) {
    if (!found->second.cast) {
      forward(KernelKind::elementwise, 2 * half, half);
      save_new("weight_half", half).weight_copy = true;
      found->second.cast = true;
    }
    late_backward(KernelKind::elementwise, half, 2 * half);
  }
  // The owner's gradient is the sum of the gradients of both uses.
  const double gradient = static_cast<double>(count) * builder_.weight_bytes();
  Kernel sum;
  sum.pass = Pass::backward;
  sum.flops = static_cast<double>(count);
  sum.bytes_read = 2 * gradient;
  sum.bytes_written = gradient;
  owning.backward.push_back(sum);
}

void LayerWriter::buffers(int count, double bytes, int counters) {
  layer_.buffers += count;
  layer_.counters += counters;
  layer_.buffer_bytes += bytes;
}

Value LayerWriter::matmul_input(const Value& x) {
  if (!builder_.autocast() || x.element_bytes != 4) return x;
  Value half = x;
  half.element_bytes = 2;
  half.storage = builder_.new_storage(builder_.bytes(half), index_);
  forward(KernelKind::elementwise, builder_.bytes(x), builder_.bytes(half));
  if (x.requires_grad) {
    late_backward(KernelKind::elementwise, builder_.bytes(half), builder_.bytes(x));
  }
  return half;
}

Value LayerWriter::full_precision(const Value& x) {
  if (x.element_bytes != 2) return x;
  Value full = x;
  full.element_bytes = 4;
  full.storage = builder_.new_storage(builder_.bytes(full), index_);
  forward(KernelKind::elementwise, builder_.bytes(x), builder_.bytes(full));
  if (x.requires_grad) {
    late_backward(KernelKind::elementwise, builder_.bytes(full), builder_.bytes(x));
  }
  return full;
}

Kernel& LayerWriter::add(std::vector<Kernel>& list, KernelKind kind, Pass pass, double read,
                         double written) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.pass = pass;
  kernel.bytes_read = read;
  kernel.bytes_written = written;
  list.push_back(kernel);
  return list.back();
}

Kernel& LayerWriter::forward(KernelKind kind, double read, double written, double flops) {
  Kernel& kernel = add(layer_.forward, kind, Pass::forward, read, written);
  kernel.flops = flops;
  return kernel;
}

Kernel& LayerWriter::backward(KernelKind kind, double read, double written, double flops,
                              Pass pass) {
  Kernel& kernel = add(layer_.backward, kind, pass, read, written);
  kernel.flops = flops;
  return kernel;
}

Kernel& LayerWriter::late_backward(KernelKind kind, double read, double written) {
  return add(late_, kind, Pass::backward, read, written);
}

void LayerWriter::views(int forward_operators, int backward_operators) {
  if (forward_operators > 0) {
    Kernel& kernel = forward(KernelKind::copy, 0, 0);
    kernel.launches = 0;
    kernel.operators = forward_operators;
  }
  if (backward_operators > 0 && backward_needed_) {
    Kernel& kernel = backward(KernelKind::copy, 0, 0);
    kernel.launches = 0;
    kernel.operators = backward_operators;
  }
}

// A product has 2 m n k FLOPs, and the traffic of its three matrices in the type of products.
Kernel& LayerWriter::gemm(Pass pass, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::int64_t batch) {
  const double size = builder_.matmul_bytes();
  const double a = static_cast<double>(m) * k * batch;
  const double b = static_cast<double>(k) * n * batch;
  const double c = static_cast<double>(m) * n * batch;
  Kernel& kernel = add(pass == Pass::forward ? layer_.forward : layer_.backward, KernelKind::gemm,
                       pass, (a + b) * size, c * size);
  kernel.math = builder_.matmul_math();
  kernel.flops = 2 * static_cast<double>(m) * n * k * batch;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.batch = batch;
  return kernel;
}

void LayerWriter::save(const Value& value, const std::string& name) {
  for (const SavedTensor& saved : layer_.saved) {
    if (saved.storage == value.storage) return;
  }
  layer_.saved.push_back({name, builder_.storage_bytes(value.storage), value.storage,
                          builder_.storage_owner(value.storage)});
}

SavedTensor& LayerWriter::save_new(const std::string& name, double bytes) {
  layer_.saved.push_back({name, bytes, builder_.new_storage(bytes, index_), index_});
  return layer_.saved.back();
}

void LayerWriter::workspace(double forward_bytes, double backward_bytes) {
  layer_.forward_workspace_bytes += forward_bytes;
  layer_.backward_workspace_bytes += backward_bytes;
}

// A newly allocated tensor requires a gradient if an input or a trained parameter of the layer
// does.
// REQUIRES: the layer's parameters are declared already.
Value LayerWriter::output(std::vector<std::int64_t> shape, int element_bytes) {
  Value value;
  value.shape = std::move(shape);
  value.element_bytes = element_bytes;
  value.layer = index_;
  value.storage = builder_.new_storage(builder_.bytes(value), index_);
  value.requires_grad = backward_needed_ || gradients_ > 0 || layer_.starts_gradients;
  return value;
}

Value LayerWriter::view_of(const Value& base, std::vector<std::int64_t> shape) {
  Value value = base;
  value.shape = std::move(shape);
  value.layer = index_;
  value.requires_grad = backward_needed_ || gradients_ > 0;
  return value;
}

// Removes backward work from a layer without trained parameters. If an input requires a gradient,
// only the kernels of weights' gradients are removed. Otherwise all of backward is removed, and
// nothing is saved for it.
void LayerWriter::leave_out_frozen() {
  std::vector<Kernel>& backward = layer_.backward;
  if (backward_needed_) {
    std::erase_if(backward, [](const Kernel& k) { return k.pass == Pass::weight_gradient; });
    return;
  }
  backward.clear();
  late_.clear();
  layer_.saved.clear();
  layer_.backward_workspace_bytes = 0;
}

// Appends the layer. Its AccumulateGrad nodes become one entry of host work at the end of backward.
Value LayerWriter::done(const Value& result) {
  const bool reads_trained = layer_.tied_layer >= 0 && trains_last_;
  if (builder_.freezing_.is_used() && gradients_ == 0 && !reads_trained) leave_out_frozen();
  if (gradients_ > 0) {
    Kernel& accumulate = late_backward(KernelKind::elementwise, 0, 0);
    accumulate.launches = 0;
    accumulate.operators = gradients_;
  }
  layer_.backward.insert(layer_.backward.end(), late_.begin(), late_.end());
  layer_.output_bytes = builder_.bytes(result);
  layer_.output_storage = result.storage;
  layer_.is_loss = result.shape.empty();
  builder_.step_.layers.push_back(std::move(layer_));
  builder_.readers_.push_back(0);
  Value value = result;
  value.layer = index_;
  return value;
}

}  // namespace lockstep
