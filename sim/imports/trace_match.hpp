// Which layer of a model each operator of a traced step belongs to.
#pragma once

#include <string>
#include <vector>

#include "trace_steps.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct LayerTimes {
  std::vector<double> forward, backward;  // seconds by layer
  double outside = 0;                     // of operators before the first layer: loading, casts
  std::vector<std::string> silent;        // layers without an operator of their own: 0 s
  bool shapes = false, batch = false;     // whether any were recorded, and one that tells the batch
  // Layers in the order in which they ran, with the place of their first operator: for the host's
  // time per operator.
  struct Visit {
    std::size_t layer = 0;
    double start = 0, end = 0;  // us: first operator begins, last one ends
    int operators = 0;          // top-level operators in it
  };
  std::vector<Visit> forward_visits, backward_visits;
};

// Walks operators and layers side by side. An operator that only one kind of layer runs
// (aten::conv2d) must meet that layer next; small operators (views, casts, counters) go to the
// layer beside them. Backward nodes go to the layer of the forward operator with their sequence
// number, gradient accumulation to the node before it. Recorded shapes are compared with the
// layer's; inputs of convolutions, of tables of token ids and of linear layers over tokens tell the
// batch. Throws ConfigError at the first operator or layer that does not fit.
LayerTimes match_layers(const TracedStep& traced, const TrainingStep& model,
                        const std::string& file);

}  // namespace lockstep
