// Small hand-made training steps whose memory can be worked out on paper. Used by the tests of this
// room.
#pragma once

#include <string>
#include <vector>

#include "hardware/device.hpp"
#include "workload/step.hpp"

namespace lockstep {

inline constexpr double kib = 1024, mib = 1024 * kib, gib = 1024 * mib;

// A linear layer without bias. It saves its input and has one output and one weight of `elements`.
inline Layer linear_layer(int index, const std::string& block, double input_bytes,
                          double output_bytes, std::int64_t elements) {
  Layer layer;
  layer.name = "fc" + std::to_string(index);
  layer.kind = "linear";
  layer.block = block;
  layer.parameters = {{layer.name + ".weight", {elements / 1024, 1024}, elements, true}};
  layer.inputs = {index - 1};
  layer.output_bytes = output_bytes;
  layer.output_storage = index + 1;
  layer.saved = {{"input", input_bytes, index, index - 1}};
  Kernel product;
  product.kind = KernelKind::gemm;
  layer.forward = {product};
  product.pass = Pass::weight_gradient;
  layer.backward = {product};
  return layer;
}

// Autocast's half-precision copy of the weight of layer `layer`.
inline SavedTensor weight_copy(double bytes, int layer) {
  return {"weight_half", bytes, 10 + layer, layer, true};
}

// A chain of equal linear layers, each a block of its own, with activations of `bytes` bytes and
// weights of `elements` elements.
inline TrainingStep chain(int layers, double bytes, std::int64_t elements,
                          Precision precision = Precision::fp32) {
  TrainingStep step;
  step.model = "chain";
  step.precision = precision;
  step.samples = 1;
  step.input_bytes = bytes;
  for (int i = 0; i < layers; ++i) {
    step.layers.push_back(linear_layer(i, "h." + std::to_string(i), bytes, bytes, elements));
  }
  step.parameter_count = layers * elements;
  return step;
}

// A GPU without context and library workspaces, so that only the model's own memory counts.
inline Device bare_gpu(double memory_bytes = 80 * gib) {
  Device device;
  device.memory_bytes = memory_bytes;
  return device;
}

}  // namespace lockstep
