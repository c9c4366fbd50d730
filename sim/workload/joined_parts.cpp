// Concatenates the layer lists of a rank's parts: shifts layer indices and storage ids past the
// ones of earlier parts, and connects parts that are neighbours in the model. Totals are counted
// from the joined layers. A weight that two parts share therefore counts twice, which is right
// because each part has its own copy.
#include "workload/joined_parts.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// Connects two neighbouring parts of one rank. The second part's "receive" layer reads the first
// part's "send" layer and shares its storage: it is a view, for the activation and for its
// gradient.
void hand_over(std::vector<Layer>& layers, int first_part, int second_part, bool keep_outputs) {
  Layer& send = layers[static_cast<std::size_t>(second_part - 1)];
  Layer& receive = layers[static_cast<std::size_t>(second_part)];
  const int arrived = receive.output_storage;
  for (std::size_t i = static_cast<std::size_t>(second_part); i < layers.size(); ++i) {
    Layer& layer = layers[i];
    if (layer.output_storage == arrived) layer.output_storage = send.output_storage;
    for (SavedTensor& saved : layer.saved) {
      if (saved.storage == arrived) saved.storage = send.output_storage;
    }
  }
  receive.inputs = {second_part - 1};
  send.output_bytes = receive.output_bytes;
  send.flow = receive.flow = GradientFlow::passes;
  if (keep_outputs) keep_until_backward_of(layers, first_part, second_part - 1);
}

}  // namespace

JoinedParts join(std::span<const ModelPart> parts, std::span<const int> numbers,
                 bool keep_outputs) {
  JoinedParts rank;
  int storages = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const ModelPart& part = parts[static_cast<std::size_t>(numbers[i])];
    if (i == 0) {
      rank.step = part.step;
      rank.step.layers.clear();
      rank.step.input_bytes = 0;
    }
    rank.step.input_bytes += part.step.input_bytes;
    std::vector<Layer>& layers = rank.step.layers;
    const int first = static_cast<int>(layers.size());
    const int first_storage = storages;
    const auto shifted = [&](int index) { return index < 0 ? index : index + first; };
    for (Layer layer : part.step.layers) {
      for (int& input : layer.inputs) input = shifted(input);
      layer.tied_layer = shifted(layer.tied_layer);
      layer.output_storage += first_storage;
      storages = std::max(storages, layer.output_storage + 1);
      for (SavedTensor& saved : layer.saved) {
        saved.storage += first_storage;
        saved.produced_by = shifted(saved.produced_by);
        storages = std::max(storages, saved.storage + 1);
      }
      layers.push_back(std::move(layer));
    }
    rank.first_layers.push_back(first);
    rank.layers.insert(rank.layers.end(), part.layers.begin(), part.layers.end());
    if (i > 0 && numbers[i] == numbers[i - 1] + 1) {
      hand_over(layers, rank.first_layers[i - 1], first, keep_outputs);
    }
  }
  count_model(rank.step);
  return rank;
}

}  // namespace lockstep
