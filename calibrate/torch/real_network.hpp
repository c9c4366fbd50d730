// A real network that is built from a TrainingStep (workload/step.hpp), so that simulator and
// measurement use the same models/*.yaml. It runs the step's layers in the step's order, so that a
// measured layer has the index of the simulated one. Includes ATen, so only .cpp files of the
// measuring half may include it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

struct NetworkParameter {
  std::string name;
  int layer = 0;  // index into TrainingStep::layers of the layer that owns it
  at::Tensor tensor;
};

// Called before and after each layer's forward; each may be empty. `after` may replace the output,
// for example by a tensor that reports when its gradient arrives.
struct ForwardHooks {
  std::function<void(std::size_t layer)> before;
  std::function<void(std::size_t layer, at::Tensor& output)> after;
};

struct Batch {
  at::Tensor input;   // images (samples, channels, height, width) or token ids (samples, tokens)
  at::Tensor target;  // class of every sample or token
};

class RealNetwork {
 public:
  // Allocates and initialises the parameters (by the defaults of nn.Linear and nn.Conv2d). Equal
  // seeds give equal values on every rank. Throws std::runtime_error for operators without a rule
  // in real_network.cpp.
  RealNetwork(const TrainingStep& step, at::Device device, std::uint64_t seed);

  // Mean cross-entropy of the batch, computed in the step's precision. An output is released as
  // soon as the last layer that reads it has run, as in a Python forward().
  at::Tensor forward(const Batch& batch, const ForwardHooks& hooks = {});

  const TrainingStep& step() const { return step_; }
  std::vector<NetworkParameter>& parameters() { return parameters_; }  // in the model's order
  const std::vector<at::Tensor>& buffers() const { return buffers_; }  // batch norm's statistics
  at::Tensor logits() const { return logits_; }  // of the last forward outside of training
  void drop_gradients();                         // like zero_grad(set_to_none=True)
  void set_training(bool training) { training_ = training; }

 private:
  struct LayerTensors {
    std::vector<std::size_t> parameters;  // indices into parameters_
    std::vector<std::size_t> buffers;     // indices into buffers_
    std::size_t tied = SIZE_MAX;  // index of an earlier layer's parameter, if the weight is tied
  };
  at::Tensor run_layer(std::size_t index, const std::vector<at::Tensor>& inputs,
                       const Batch& batch);
  void create_layer(std::size_t index);

  TrainingStep step_;
  at::Device device_;
  std::vector<LayerTensors> layers_;
  std::vector<NetworkParameter> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::vector<int>> last_read_;  // by layer: outputs that no later layer reads
  at::Tensor logits_;
  bool training_ = true;
};

// Number of classes of the logits, which is the number of outputs of the last linear layer or
// convolution.
std::int64_t output_classes(const TrainingStep& step);

// Random input and targets of the step's shape. Equal seeds give equal values.
Batch random_batch(const TrainingStep& step, at::Device device, std::uint64_t seed);

}  // namespace lockstep
