// Helpers of the workload tests. They build a step from a model text, and find layers and kernels.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

inline TrainingStep build_text(const std::string& text, const StepOptions& options = {}) {
  return build_step(read_model_text(text, "test.yaml"), options);
}

// A model of these layers on a 3 x 32 x 32 image, followed by a classifier.
inline TrainingStep build_layers(const std::string& layers, const StepOptions& options = {}) {
  return build_text("input: {image: [3, 32, 32], classes: 10}\nlayers:\n" + layers, options);
}

inline const Layer& find_layer(const TrainingStep& step, const std::string& name) {
  for (const Layer& layer : step.layers) {
    if (layer.name == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  static const Layer none;
  return none;
}

inline Kernel find_kernel(const std::vector<Kernel>& kernels, KernelKind kind, Pass pass) {
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == kind && kernel.pass == pass) return kernel;
  }
  ADD_FAILURE() << "no such kernel";
  return {};
}

inline int operators(const std::vector<Kernel>& kernels) {
  int sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.operators;
  return sum;
}

inline int launches(const std::vector<Kernel>& kernels) {
  int sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.launches;
  return sum;
}

// Bytes of the saved activations; each storage counts once, and the step's input does not count.
inline double saved_bytes(const TrainingStep& step) {
  std::set<int> seen;
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const SavedTensor& saved : layer.saved) {
      if (saved.produced_by >= 0 && seen.insert(saved.storage).second) sum += saved.bytes;
    }
  }
  return sum;
}

}  // namespace lockstep
