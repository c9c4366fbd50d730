// Selection of the weights that a matrix optimizer (Muon) updates: the two-dimensional weights of
// hidden layers. AdamW, with which Muon is combined, updates all other parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

// A weight that Muon updates.
struct HiddenMatrix {
  int tensor = 0;  // index among the trainable parameters that have elements, in definition order
  std::int64_t rows = 0, columns = 0;

  double elements() const { return static_cast<double>(rows) * static_cast<double>(columns); }
};

// The trained two-dimensional weights of layers of kind `linear` and `experts`. Excluded are
// embeddings, position tables, biases, the head that computes the logits (also if it is tied to an
// embedding), and filters of convolutions, which have four dimensions.
std::vector<HiddenMatrix> hidden_matrices(const TrainingStep& step);

}  // namespace lockstep
