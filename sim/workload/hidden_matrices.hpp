// The weights that optimizers for matrices take (Muon): 2-D ones of hidden layers.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

struct HiddenMatrix {
  int tensor = 0;  // among the trainable ones, in definition order
  std::int64_t rows = 0, columns = 0;

  double elements() const { return static_cast<double>(rows) * static_cast<double>(columns); }
};

// Linear layers' and experts' weights. Not embeddings, position tables and biases, not what makes
// the logits, tied or not, and not the filters of convolutions, which have four dimensions.
std::vector<HiddenMatrix> hidden_matrices(const TrainingStep& step);

}  // namespace lockstep
