// A real network built from a TrainingStep: the second reader of models/*.yaml. One LibTorch call
// per layer of the step, in the step's order, so that a measured layer is the simulated layer of
// the same index. Includes ATen: only .cpp files of the measuring half may include this header.
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

// Called around each layer's forward; either may be empty. `after` may replace the output, e.g. by
// one that reports when its gradient arrives.
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
  // Allocates and initializes the parameters (as nn.Linear and nn.Conv2d do by default), the same
  // for the same seed on every rank. Throws std::runtime_error for operators that LibTorch cannot
  // compute here.
  RealNetwork(const TrainingStep& step, at::Device device, std::uint64_t seed);

  // Mean cross-entropy of the batch, computed in the step's precision. Tensors are dropped as soon
  // as their last reader has run, as a Python forward() would.
  at::Tensor forward(const Batch& batch, const ForwardHooks& hooks = {});

  const TrainingStep& step() const { return step_; }
  std::vector<NetworkParameter>& parameters() { return parameters_; }  // in the model's order
  const std::vector<at::Tensor>& buffers() const { return buffers_; }  // batch norm's statistics
  at::Tensor logits() const { return logits_; }  // of the latest forward that did not train
  void drop_gradients();                         // as zero_grad(set_to_none=True)
  void set_training(bool training) { training_ = training; }

 private:
  struct LayerTensors {
    std::vector<std::size_t> parameters;  // indices into parameters_
    std::vector<std::size_t> buffers;     // indices into buffers_
    std::size_t tied = SIZE_MAX;          // a parameter of an earlier layer
  };
  at::Tensor run_layer(std::size_t index, const std::vector<at::Tensor>& inputs,
                       const Batch& batch);
  void create_layer(std::size_t index);

  TrainingStep step_;
  at::Device device_;
  std::vector<LayerTensors> layers_;
  std::vector<NetworkParameter> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::vector<int>> last_read_;  // per layer: outputs that nobody reads afterwards
  at::Tensor logits_;
  bool training_ = true;
};

// Number of classes of the logits: outputs of the last layer with a weight matrix.
std::int64_t output_classes(const TrainingStep& step);

// Random input of the step's shape; the same for the same seed.
Batch random_batch(const TrainingStep& step, at::Device device, std::uint64_t seed);

}  // namespace lockstep
