// The rules are those of eager autograd: an output lives until its last reader in
// forward, a saved tensor until the backward of the first layer that saved it (backward runs in
// reverse), a checkpointed block keeps what enters it and computes the rest again (fact 60).
#include "memory/liveness.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr int never = std::numeric_limits<int>::max();

// What is known of one storage while the graph is walked.
struct Storage {
  std::int64_t bytes = 0;
  int producer = never;         // layer whose forward allocates it; -1 = the step's input
  int last_reader = -1;         // forward
  int last_reader_inside = -1;  // of the producer's checkpoint segment
  int keeper = never;           // first layer whose backward needs it (or that starts a segment)
  int keeper_inside = never;    // the same within the producer's checkpoint segment
  bool kept = false;  // through recomputation: what an operator that is not run again gave
  bool weight_copy = false;
  std::string_view what;
};

void find_segments(const TrainingStep& step, Liveness& result) {
  result.segment_of.assign(step.layers.size(), -1);
  for (int i = 0; i < static_cast<int>(step.layers.size()); ++i) {
    if (!step.layers[i].checkpointed) continue;
    const bool continues = i > 0 && step.layers[i - 1].checkpointed &&
                           step.layers[i - 1].block == step.layers[i].block;
    if (!continues) result.segments.push_back({i, i});
    result.segments.back().last = i;
    result.segment_of[i] = static_cast<int>(result.segments.size()) - 1;
  }
}

void find_gradients(const TrainingStep& step, Liveness& result) {
  const int layers = static_cast<int>(step.layers.size());
  result.needs_gradient.assign(layers, 0);
  for (int i = 0; i < layers; ++i) {
    const Layer& layer = step.layers[i];
    bool needs = layer.tied_layer >= 0;
    for (const Parameter& parameter : layer.parameters) {
      needs = needs || parameter.trainable;
    }
    for (const int input : layer.inputs) {
      needs = needs || (input >= 0 && result.needs_gradient[input]);
    }
    result.needs_gradient[i] = needs;
  }
}

}  // namespace

void LayerLists::finish(std::size_t layers) {
  begin_.assign(layers + 1, 0);
  for (const Item& item : items_) ++begin_[item.layer + 1];
  for (std::size_t i = 0; i < layers; ++i) begin_[i + 1] += begin_[i];
  values_.resize(items_.size());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (const Item& item : items_) values_[next[item.layer]++] = item.value;
  items_ = {};
}

std::int64_t whole_bytes(double bytes) {
  constexpr double most = 4398046511104.0;  // 4 TiB
  return bytes > 0 ? std::llround(std::min(bytes, most)) : 0;
}

Liveness find_liveness(const TrainingStep& step, bool host) {
  Liveness result;
  const int layers = static_cast<int>(step.layers.size());
  find_segments(step, result);
  find_gradients(step, result);
  const auto& segment_of = result.segment_of;

  int most = -1;
  for (const Layer& layer : step.layers) {
    most = std::max(most, layer.output_storage);
    for (const SavedTensor& saved : layer.saved) most = std::max(most, saved.storage);
  }
  std::vector<Storage> storages(most + 1);

  // Forward needs `storage` in layer i.
  const auto read_by = [&](Storage& storage, int i) {
    storage.last_reader = std::max(storage.last_reader, i);
    const int segment = segment_of[i];
    if (storage.producer >= 0 && segment >= 0 && segment == segment_of[storage.producer]) {
      storage.last_reader_inside = std::max(storage.last_reader_inside, i);
    } else if (segment >= 0) {
      // It enters a checkpointed block, which keeps it until its own backward is done.
      storage.keeper = std::min(storage.keeper, result.segments[segment].first);
    }
  };
  for (int i = 0; i < layers; ++i) {
    const Layer& layer = step.layers[i];
    for (const SavedTensor& saved : layer.saved) {
      Storage& storage = storages[saved.storage];
      const bool wide_mask = host && saved.mask;
      storage.bytes =
          std::max(storage.bytes, whole_bytes(wide_mask ? layer.output_bytes : saved.bytes));
      storage.producer = std::min(storage.producer, saved.produced_by);
      storage.weight_copy = storage.weight_copy || saved.weight_copy;
      if (storage.what.empty()) storage.what = saved.name;
    }
    Storage& output = storages[layer.output_storage];
    output.bytes = std::max(output.bytes, whole_bytes(layer.output_bytes));
    const bool is_view_of_input =
        layer.flow == GradientFlow::passes &&
        std::all_of(layer.inputs.begin(), layer.inputs.end(), [](int input) { return input < 0; });
    output.producer = std::min(output.producer, is_view_of_input ? -1 : i);
    if (output.producer == i) output.what = "output";
    output.kept = output.kept || (layer.keeps_output && output.producer == i);
    read_by(output, i);
    for (const int input : layer.inputs) {
      if (input >= 0) read_by(storages[step.layers[input].output_storage], i);
    }
    for (const SavedTensor& saved : layer.saved) {
      Storage& storage = storages[saved.storage];
      if (storage.producer < 0) continue;
      if (saved.produced_by == i) {
        read_by(storage, i);
        storage.kept = storage.kept || (layer.keeps_output && saved.with_output);
      }
      const int segment = segment_of[i];
      if (segment >= 0 && segment == segment_of[storage.producer]) {
        storage.keeper_inside = std::min(storage.keeper_inside, i);
      } else {
        const int until = segment >= 0 ? result.segments[segment].first : i;
        storage.keeper = std::min(storage.keeper, until);
      }
    }
  }

  const auto add = [&](const Storage& storage) {
    result.tensors.push_back({storage.bytes, storage.weight_copy, storage.producer, storage.what});
    return static_cast<int>(result.tensors.size()) - 1;
  };
  for (const Storage& storage : storages) {
    if (storage.producer == never || storage.producer < 0) continue;
    const int producer = storage.producer;
    const int tensor = add(storage);
    result.born_in_forward.add(producer, tensor);
    const bool inside = segment_of[producer] >= 0;
    const auto die_inside = [&](int which) {
      if (storage.keeper_inside != never) {
        result.die_after_backward.add(storage.keeper_inside, which);
      } else {
        result.die_after_recompute.add(std::max(producer, storage.last_reader_inside), which);
      }
    };
    if (inside && storage.kept) {
      die_inside(tensor);
      continue;
    }
    if (storage.keeper != never) {
      result.die_after_backward.add(storage.keeper, tensor);
    } else if (storage.weight_copy && inside) {
      result.die_after_forward_pass.push_back(tensor);
    } else {
      result.die_after_forward.add(std::max(producer, storage.last_reader), tensor);
    }
    if (!inside) continue;
    const int again = add(storage);
    result.born_in_recompute.add(producer, again);
    die_inside(again);
  }
  for (LayerLists* lists :
       {&result.born_in_forward, &result.die_after_forward, &result.born_in_recompute,
        &result.die_after_recompute, &result.die_after_backward}) {
    lists->finish(step.layers.size());
  }
  return result;
}

}  // namespace lockstep
