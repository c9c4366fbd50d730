// Collects the gradient tensors of a step. A tied parameter (for example a head that shares the
// embedding's weight) appears in several layers under one name, and counts once, for its first
// layer.
#include "strategies/common/gradients.hpp"

#include <set>
#include <string>

namespace lockstep {

std::vector<GradientTensor> gradient_tensors(const TrainingStep& step, int element_bytes) {
  std::vector<GradientTensor> tensors;
  std::set<std::string> seen;
  for (std::size_t layer = 0; layer < step.layers.size(); ++layer) {
    for (const Parameter& parameter : step.layers[layer].parameters) {
      if (!parameter.trainable || !seen.insert(parameter.name).second) continue;
      tensors.push_back({static_cast<double>(parameter.count), element_bytes, parameter.shape,
                         static_cast<int>(layer), parameter.expert});
    }
  }
  return tensors;
}

}  // namespace lockstep
