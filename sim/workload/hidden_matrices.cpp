// Selects weights by the kind of their layer, and finds heads by going back from the loss: the
// first layer with parameters on each path from the loss is a head. The rule follows Muon's
// reference code, in which AdamW updates embeddings and the head.
#include "workload/hidden_matrices.hpp"

namespace lockstep {
namespace {

// By layer: whether it is a head. `judged`: layers whose output reaches the loss only through
// layers without parameters.
std::vector<bool> heads(const TrainingStep& step) {
  std::vector<bool> judged(step.layers.size()), head(step.layers.size());
  for (std::size_t i = step.layers.size(); i-- > 0;) {
    const Layer& layer = step.layers[i];
    const bool holds = !layer.parameters.empty() || layer.tied_layer >= 0;
    head[i] = judged[i] && holds;
    if (!layer.is_loss && (!judged[i] || holds)) continue;
    for (const int input : layer.inputs) {
      if (input >= 0) judged[static_cast<std::size_t>(input)] = true;
    }
  }
  return head;
}

}  // namespace

std::vector<HiddenMatrix> hidden_matrices(const TrainingStep& step) {
  const std::vector<bool> head = heads(step);
  std::vector<bool> shared(step.layers.size());  // by layer: whether a head is tied to its weight
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    if (head[i] && step.layers[i].tied_layer >= 0) {
      shared[static_cast<std::size_t>(step.layers[i].tied_layer)] = true;
    }
  }
  std::vector<HiddenMatrix> matrices;
  int tensor = 0;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const Layer& layer = step.layers[i];
    const bool multiplies = layer.kind == "linear" || layer.kind == "experts";
    for (const Parameter& parameter : layer.parameters) {
      if (!parameter.trainable || parameter.count == 0) continue;
      if (multiplies && !head[i] && !shared[i] && parameter.shape.size() == 2) {
        matrices.push_back({tensor, parameter.shape[0], parameter.shape[1]});
      }
      ++tensor;
    }
  }
  return matrices;
}

}  // namespace lockstep
