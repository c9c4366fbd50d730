// Computes each operator of a model file with one ATen call, or with the few calls of PyTorch's
// module. rules() has a rule for each kind of layer; a kind without a rule is an error when the
// network is built.
#include "torch/real_network.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "torch/attention.hpp"
#include "torch/experts.hpp"
#include "torch/precision.hpp"
#include "torch/windows.hpp"

namespace lockstep {

namespace {

using Inputs = std::vector<at::Tensor>;

// The input of one operator's rule.
struct Call {
  const Layer& layer;
  const Inputs& inputs;
  at::Tensor weight, bias;          // undefined if the layer has none
  std::vector<at::Tensor> weights;  // all parameters of the layer
  std::vector<at::Tensor> buffers;  // batch norm: mean, variance, count
  at::Tensor target;
  bool training = true;

  const at::Tensor& x() const { return inputs.front(); }
  std::int64_t get(std::string_view name, std::int64_t fallback = 0) const {
    return attribute(layer, name, fallback);
  }
};

at::Tensor conv(const Call& c) {
  return at::conv2d(c.x(), c.weight, c.bias, {c.get("stride", 1), c.get("stride", 1)},
                    {c.get("padding_h"), c.get("padding_w")},
                    {c.get("dilation", 1), c.get("dilation", 1)}, c.get("groups", 1));
}

at::Tensor batch_norm(const Call& c) {
  if (c.training) c.buffers[2].add_(1);
  return at::batch_norm(c.x(), c.weight, c.bias, c.buffers[0], c.buffers[1], c.training, 0.1, 1e-5,
                        true);
}

at::Tensor layer_norm(const Call& c) {
  return at::layer_norm(c.x(), {c.x().size(-1)}, c.weight, c.bias, 1e-5);
}

// Normalizes over all features, or over the features of each head.
at::Tensor rms_norm(const Call& c) {
  const std::int64_t heads = c.get("heads", 1);
  const at::Tensor wide = (heads > 1 ? c.x().unflatten(-1, {heads, -1}) : c.x()).to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, true) + 1e-5);
  const at::Tensor y = (wide * scale).to(c.x().scalar_type()) * c.weight;
  return heads > 1 ? y.flatten(-2) : y;
}

at::Tensor soft_cap(const Call& c) {
  constexpr double cap = 30;  // Gemma 2's final_logit_softcapping
  return at::tanh(c.x() / cap) * cap;
}

at::Tensor max_pool(const Call& c) {
  const std::int64_t kernel = c.get("kernel"), stride = c.get("stride"), padding = c.get("padding");
  return at::max_pool2d(c.x(), {kernel, kernel}, {stride, stride}, {padding, padding}, {1, 1},
                        c.get("ceil_mode") != 0);
}

at::Tensor avg_pool(const Call& c) {
  const std::int64_t kernel = c.get("kernel"), stride = c.get("stride"), padding = c.get("padding");
  return at::avg_pool2d(c.x(), {kernel, kernel}, {stride, stride}, {padding, padding},
                        c.get("ceil_mode") != 0);
}

at::Tensor stochastic_depth(const Call& c) {
  if (!c.training) return c.x();
  const double keep = 1 - static_cast<double>(c.get("p")) / 1e6;
  std::vector<std::int64_t> shape(c.x().dim(), 1);
  shape[0] = c.x().size(0);
  at::Tensor noise = at::empty(shape, c.x().options()).bernoulli_(keep);
  if (keep > 0) noise.div_(keep);
  return c.x() * noise;
}

at::Tensor add(const Call& c) {
  at::Tensor sum = c.get("inplace") != 0 ? c.inputs[0] : c.inputs[0] + c.inputs[1];
  for (std::size_t i = c.get("inplace") != 0 ? 1 : 2; i < c.inputs.size(); ++i) {
    sum = sum.add_(c.inputs[i]);
  }
  return sum;
}

at::Tensor concat(const Call& c) {
  return at::cat(c.inputs, c.x().dim() == 4 ? 1 : -1);
}

at::Tensor permute(const Call& c) {
  return c.get("channels_last") != 0 ? c.x().permute({0, 2, 3, 1}) : c.x().permute({0, 3, 1, 2});
}

at::Tensor position_embedding(const Call& c) {
  if (c.get("lookup", 1) == 0) return c.x() + c.weight.slice(1, 0, c.x().size(1));
  const at::Tensor positions =
      at::arange(c.x().size(1), at::TensorOptions(at::kLong).device(c.x().device()));
  return c.x() + at::embedding(c.weight, positions);
}

at::Tensor class_token(const Call& c) {
  return at::cat({c.weight.expand({c.x().size(0), -1, -1}), c.x()}, 1);
}

at::Tensor attention(const Call& c) {
  const std::int64_t heads = c.get("heads"), kv_heads = c.get("kv_heads", heads);
  const std::int64_t samples = c.x().size(0), tokens = c.x().size(1);
  std::vector<at::Tensor> parts = c.inputs;
  if (parts.size() == 1) {
    const std::int64_t size = c.x().size(2) / (heads + 2 * kv_heads);
    parts = c.x().split_with_sizes({heads * size, kv_heads * size, kv_heads * size}, -1);
  }
  const auto split = [&](const at::Tensor& x, std::int64_t count) {
    at::Tensor y = x.reshape({samples, tokens, count, x.size(2) / count}).transpose(1, 2);
    return count == heads ? y : y.repeat_interleave(heads / count, 1);
  };
  const at::Tensor q = split(parts[0], heads), k = split(parts[1], kv_heads),
                   v = split(parts[2], kv_heads);
  AttentionRule rule;
  rule.causal = c.get("causal") != 0;
  rule.alibi = c.get("alibi") != 0;
  rule.adds_bias = c.get("learned_bias") != 0;
  if (c.get("relative_buckets") > 0) rule.bias_table = c.weight;
  rule.dropout = c.training && c.get("dropout") != 0 ? 0.1 : 0;
  rule.fused = c.get("fused", 1) != 0;
  const at::Tensor y = attend(q, k, v, rule);
  return y.transpose(1, 2).reshape({samples, tokens, -1});
}

WindowRule window_rule(const Call& c) {
  return {c.get("size"), c.get("rolled") != 0 ? c.get("shift") : 0};
}

at::Tensor cross_entropy(const Call& c) {
  const at::Tensor rows = c.x().reshape({-1, c.x().size(-1)});
  return at::cross_entropy_loss(c.get("upcast") != 0 ? rows.to(at::kFloat) : rows,
                                c.target.reshape({-1}));
}

double probability(const Call& c) {
  return static_cast<double>(c.get("p")) / 1e6;
}

// An activation, in place if the model file says so.
template <at::Tensor (*Copy)(const at::Tensor&), at::Tensor& (*InPlace)(at::Tensor&)>
at::Tensor activation(const Call& c) {
  if (c.get("inplace") == 0) return Copy(c.x());
  at::Tensor x = c.x();
  return InPlace(x);
}

using Rule = at::Tensor (*)(const Call&);
const std::map<std::string, Rule, std::less<>>& rules() {
  static const std::map<std::string, Rule, std::less<>> table{
      {"conv", conv},
      {"linear", [](const Call& c) { return at::linear(c.x(), c.weight, c.bias); }},
      {"batch_norm", batch_norm},
      {"layer_norm", layer_norm},
      {"rms_norm", rms_norm},
      {"soft_cap", soft_cap},
      {"group_norm",
       [](const Call& c) {
         return at::group_norm(c.x(), c.get("groups"), c.weight, c.bias, 1e-5);
       }},
      {"layer_scale", [](const Call& c) { return c.x() * c.weight; }},
      {"relu", activation<at::relu, at::relu_>},
      {"relu6", activation<at::relu6, at::relu6_>},
      {"sigmoid", activation<at::sigmoid, at::sigmoid_>},
      {"tanh", activation<at::tanh, at::tanh_>},
      {"silu", activation<at::silu, at::silu_>},
      {"hardswish", activation<at::hardswish, at::hardswish_>},
      {"hardsigmoid", activation<at::hardsigmoid, at::hardsigmoid_>},
      {"leaky_relu",
       [](const Call& c) {
         at::Tensor x = c.x();
         return c.get("inplace") != 0 ? at::leaky_relu_(x) : at::leaky_relu(x);
       }},
      {"gelu", [](const Call& c) { return at::gelu(c.x()); }},
      {"dropout", [](const Call& c) { return at::dropout(c.x(), probability(c), c.training); }},
      {"stochastic_depth", stochastic_depth},
      {"add", add},
      {"multiply", [](const Call& c) { return c.inputs[0] * c.inputs[1]; }},
      {"concat", concat},
      {"max_pool", max_pool},
      {"avg_pool", avg_pool},
      {"adaptive_avg_pool",
       [](const Call& c) {
         return at::adaptive_avg_pool2d(c.x(), {c.get("out", 1), c.get("out", 1)});
       }},
      {"flatten", [](const Call& c) { return at::flatten(c.x(), 1); }},
      {"permute", permute},
      {"to_tokens", [](const Call& c) { return at::flatten(c.x(), 2).transpose(1, 2); }},
      {"embedding", [](const Call& c) { return at::embedding(c.weight, c.x()); }},
      {"position_embedding", position_embedding},
      {"class_token", class_token},
      {"select_token", [](const Call& c) { return c.x().select(1, 0); }},
      {"attention", attention},
      {"rotary", [](const Call& c) { return rotate_positions(c.x(), c.get("heads")); }},
      {"windows", [](const Call& c) { return cut_windows(c.x(), window_rule(c)); }},
      {"window_attention",
       [](const Call& c) {
         return attend_in_windows(c.x(), c.weight, window_rule(c), c.get("heads"));
       }},
      {"join_windows",
       [](const Call& c) {
         return join_windows(c.x(), window_rule(c), c.get("height"), c.get("width"));
       }},
      {"merge_patches", [](const Call& c) { return merge_patches(c.x()); }},
      {"experts",
       [](const Call& c) { return mix_experts(c.x(), c.inputs[1], c.weights, c.get("top", 2)); }},
      {"cross_entropy", cross_entropy},
  };
  return table;
}

}  // namespace

RealNetwork::RealNetwork(const TrainingStep& step, at::Device device, std::uint64_t seed)
    : step_(step), device_(device) {
  allow_tf32(step.precision);
  at::manual_seed(seed);
  layers_.resize(step.layers.size());
  last_read_.resize(step.layers.size());
  std::vector<std::size_t> last(step.layers.size(), 0);
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    create_layer(i);
    last[i] = i;
    for (const int input : step.layers[i].inputs) {
      if (input >= 0) last[static_cast<std::size_t>(input)] = i;
    }
  }
  for (std::size_t i = 0; i < last.size(); ++i) last_read_[last[i]].push_back(static_cast<int>(i));
}

void RealNetwork::create_layer(std::size_t index) {
  const Layer& layer = step_.layers[index];
  if (rules().find(layer.kind) == rules().end()) {
    throw std::runtime_error(
        fmt::format("layer {}: there is no LibTorch call for '{}'", layer.name, layer.kind));
  }
  LayerTensors& own = layers_[index];
  const bool half = parameter_bytes(step_.precision) == 2;
  const auto type = !half                                     ? at::kFloat
                    : step_.precision == Precision::pure_fp16 ? at::kHalf
                                                              : at::kBFloat16;
  const auto options = at::TensorOptions(type).device(device_);
  for (const Parameter& parameter : layer.parameters) {
    // nn.Linear and nn.Conv2d draw uniformly from +-1/sqrt(fan in). Weights of norms are 1 and
    // biases 0. Embedding tables and class tokens are normal with a small deviation.
    at::Tensor tensor;
    const bool weight = !parameter.name.ends_with(".bias");
    if (layer.kind == "conv" || layer.kind == "linear") {
      const auto& shape = layer.parameters.front().shape;
      const double fan_in = static_cast<double>(
          std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>()));
      tensor = at::empty(parameter.shape, at::kFloat)
                   .uniform_(-1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
    } else if (layer.kind.ends_with("_norm")) {
      tensor = weight ? at::ones(parameter.shape) : at::zeros(parameter.shape);
    } else if (layer.kind == "layer_scale") {
      tensor = at::full(parameter.shape, 1e-6);
    } else {
      tensor = at::empty(parameter.shape, at::kFloat).normal_(0, 0.02);
    }
    own.parameters.push_back(parameters_.size());
    parameters_.push_back({parameter.name, static_cast<int>(index),
                           tensor.to(options).set_requires_grad(parameter.trainable)});
  }
  if (!layer.tied_to.empty()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].name == layer.tied_to) own.tied = i;
    }
  }
  if (layer.kind == "batch_norm") {
    const std::int64_t channels = layer.parameters.empty()
                                      ? static_cast<std::int64_t>((layer.buffer_bytes - 8) / 2 /
                                                                  parameter_bytes(step_.precision))
                                      : layer.parameters[0].count;
    for (const at::Tensor& buffer : {at::zeros({channels}, options), at::ones({channels}, options),
                                     at::zeros({}, options.dtype(at::kLong))}) {
      own.buffers.push_back(buffers_.size());
      buffers_.push_back(buffer);
    }
  }
}

at::Tensor RealNetwork::run_layer(std::size_t index, const Inputs& inputs, const Batch& batch) {
  const Layer& layer = step_.layers[index];
  const LayerTensors& own = layers_[index];
  Call call{layer, inputs, {}, {}, {}, {}, batch.target, training_};
  std::size_t next = 0;
  if (own.tied != SIZE_MAX) {
    call.weight = parameters_[own.tied].tensor;
  } else if (next < own.parameters.size()) {
    call.weight = parameters_[own.parameters[next++]].tensor;
  }
  if (next < own.parameters.size()) call.bias = parameters_[own.parameters[next]].tensor;
  for (const std::size_t one : own.parameters) call.weights.push_back(parameters_[one].tensor);
  for (const std::size_t buffer : own.buffers) call.buffers.push_back(buffers_[buffer]);
  return rules().find(layer.kind)->second(call);
}

at::Tensor RealNetwork::forward(const Batch& batch, const ForwardHooks& hooks) {
  const AutocastScope autocast(step_.precision, device_);
  std::vector<at::Tensor> outputs(step_.layers.size());
  Inputs inputs;
  for (std::size_t i = 0; i < step_.layers.size(); ++i) {
    inputs.clear();
    for (const int input : step_.layers[i].inputs) {
      inputs.push_back(input < 0 ? batch.input : outputs[static_cast<std::size_t>(input)]);
    }
    if (hooks.before) hooks.before(i);
    outputs[i] = run_layer(i, inputs, batch);
    if (hooks.after) hooks.after(i, outputs[i]);
    if (!training_ && step_.layers[i].kind == "cross_entropy") logits_ = inputs.front().detach();
    if (i + 1 < step_.layers.size()) {
      for (const int done : last_read_[i]) outputs[static_cast<std::size_t>(done)].reset();
    }
  }
  return outputs.back();
}

void RealNetwork::drop_gradients() {
  for (NetworkParameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

std::int64_t output_classes(const TrainingStep& step) {
  std::int64_t classes = 1;
  for (const Layer& layer : step.layers) {
    if ((layer.kind == "linear" || layer.kind == "conv") && !layer.parameters.empty()) {
      classes = layer.parameters.front().shape.front();
    }
  }
  return classes;
}

Batch random_batch(const TrainingStep& step, at::Device device, std::uint64_t seed) {
  at::manual_seed(seed);
  const std::int64_t classes = output_classes(step);
  std::vector<std::int64_t> shape{step.samples};
  shape.insert(shape.end(), step.input_shape.begin(), step.input_shape.end());
  Batch batch;
  if (step.tokens > 0) {
    std::int64_t rows = classes;
    for (const Layer& layer : step.layers) {
      if (layer.kind == "embedding") rows = layer.parameters.front().shape.front();
    }
    batch.input = at::randint(rows, shape, at::kLong);
    batch.target = at::randint(rows, shape, at::kLong);
  } else {
    batch.input = at::randn(shape);
    if (parameter_bytes(step.precision) == 2) {
      batch.input =
          batch.input.to(step.precision == Precision::pure_fp16 ? at::kHalf : at::kBFloat16);
    }
    batch.target = at::randint(classes, {step.samples}, at::kLong);
  }
  batch.input = batch.input.to(device);
  batch.target = batch.target.to(device);
  return batch;
}

}  // namespace lockstep
