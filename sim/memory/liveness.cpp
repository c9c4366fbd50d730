// Derives lifetimes by the rules of eager autograd. An output lives until its last reader in
// forward. A saved tensor lives until the backward of the first layer that saved it, because
// backward runs in reverse. A checkpointed block stores its inputs and recomputes its other tensors
// (fact 60).
// Views and in-place results share a storage, so all rules apply to storages: a storage lives as
// long as any tensor in it is needed.
#include "memory/liveness.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr int never = std::numeric_limits<int>::max();

// The needs of one storage, collected during the walk over the graph.
struct Storage {
  std::int64_t bytes = 0;
  int producer = never;         // layer whose forward allocates it; -1 = the step's input
  int last_reader = -1;         // last layer whose forward reads it
  int last_reader_inside = -1;  // ... within the producer's checkpoint segment
  int keeper = never;           // first layer whose backward needs it (or that starts a segment)
  int keeper_inside = never;    // ... within the producer's checkpoint segment
  bool kept = false;  // recomputation omits its operator, so the storage lives from forward on
  bool weight_copy = false;
  int last_for_weights = -1;  // the last layer whose weights' gradients need it
  bool for_others = false;    // other backward work needs it
  bool held = false;          // by the host's program
  std::string_view what;
};

// Groups consecutive checkpointed layers of one block into segments.
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

// Finds the layers whose output requires a gradient. A layer does if it, or any layer on which it
// depends, has a trained parameter, receives an activation, or is declared to start gradients.
void find_gradients(const TrainingStep& step, Liveness& result) {
  const int layers = static_cast<int>(step.layers.size());
  result.needs_gradient.assign(layers, 0);
  for (int i = 0; i < layers; ++i) {
    const Layer& layer = step.layers[i];
    bool needs = layer.starts_gradients || layer.boundary == Boundary::receive;
    if (layer.tied_layer >= 0) {
      needs = needs || step.layers[layer.tied_layer].parameters[layer.tied_parameter].trainable;
    }
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

bool has_weight_product(const Layer& layer) {
  return std::any_of(layer.backward.begin(), layer.backward.end(), [](const Kernel& kernel) {
    return kernel.pass == Pass::weight_gradient && is_product(kernel);
  });
}

std::int64_t whole_bytes(double bytes) {
  constexpr double most = 4398046511104.0;  // 4 TiB
  return bytes > 0 ? std::llround(std::min(bytes, most)) : 0;
}

namespace {

// Finds the needs of each storage of a step, and from them the lifetimes of its tensors.
class LivenessFinder {
 public:
  LivenessFinder(const TrainingStep& step, bool host) : step_(step), host_(host) {
    find_segments(step, result_);
    find_gradients(step, result_);
    storages_.resize(static_cast<std::size_t>(storage_count(step)));
  }

  Liveness find() {
    for (int i = 0; i < static_cast<int>(step_.layers.size()); ++i) {
      describe_saved(step_.layers[i]);
      add_output(i);
      keep_saved(i);
    }
    for (const Storage& storage : storages_) add_lives(storage);
    for (LayerLists* lists :
         {&result_.born_in_forward, &result_.die_after_forward, &result_.born_in_recompute,
          &result_.die_after_recompute, &result_.die_after_backward, &result_.last_for_weights}) {
      lists->finish(step_.layers.size());
    }
    return std::move(result_);
  }

 private:
  // Records that forward of layer i needs the storage. A read within the producer's checkpoint
  // segment is recorded separately, because recomputation repeats it.
  void read_by(Storage& storage, int i) {
    storage.last_reader = std::max(storage.last_reader, i);
    const int segment = result_.segment_of[i];
    if (storage.producer >= 0 && segment >= 0 && segment == result_.segment_of[storage.producer]) {
      storage.last_reader_inside = std::max(storage.last_reader_inside, i);
    } else if (segment >= 0) {
      // The storage enters a checkpointed block, which stores its inputs until its backward is
      // done.
      storage.keeper = std::min(storage.keeper, result_.segments[segment].first);
    }
  }

  // Sizes and producers of the storages that the layer saves.
  void describe_saved(const Layer& layer) {
    for (const SavedTensor& saved : layer.saved) {
      Storage& storage = storages_[saved.storage];
      const bool wide_mask = host_ && saved.mask;
      storage.bytes =
          std::max(storage.bytes, whole_bytes(wide_mask ? layer.output_bytes : saved.bytes));
      storage.producer = std::min(storage.producer, saved.produced_by);
      storage.weight_copy = storage.weight_copy || saved.weight_copy;
      if (storage.what.empty()) storage.what = saved.name;
    }
  }

  // Layer i allocates its output, unless it is a view of the step's input, and reads its inputs.
  void add_output(int i) {
    const Layer& layer = step_.layers[i];
    Storage& output = storages_[layer.output_storage];
    output.bytes = std::max(output.bytes, whole_bytes(layer.output_bytes));
    const bool is_view_of_input =
        layer.flow == GradientFlow::passes &&
        std::all_of(layer.inputs.begin(), layer.inputs.end(), [](int input) { return input < 0; });
    output.producer = std::min(output.producer, is_view_of_input ? -1 : i);
    if (output.producer == i) output.what = "output";
    output.kept = output.kept || (layer.keeps_output && output.producer == i);
    read_by(output, i);
    for (const int input : layer.inputs) {
      if (input >= 0) read_by(storages_[step_.layers[input].output_storage], i);
    }
  }

  // Layer i stores its saved tensors until its backward. If it is checkpointed and the producer is
  // outside of the segment, the segment stores the tensor until the backward of its first layer.
  void keep_saved(int i) {
    const Layer& layer = step_.layers[i];
    const bool splits = has_weight_product(layer);
    for (const SavedTensor& saved : layer.saved) {
      Storage& storage = storages_[saved.storage];
      if (storage.producer < 0) continue;
      if (splits && !saved.weight_copy && !saved.held) {
        storage.last_for_weights = i;
      } else {
        storage.for_others = storage.for_others || !saved.held;
        storage.held = storage.held || saved.held;
      }
      if (saved.produced_by == i) {
        read_by(storage, i);
        storage.kept = storage.kept || (layer.keeps_output && saved.with_output);
      }
      const int segment = result_.segment_of[i];
      if (segment >= 0 && segment == result_.segment_of[storage.producer]) {
        storage.keeper_inside = std::min(storage.keeper_inside, i);
      } else {
        const int until = segment >= 0 ? result_.segments[segment].first : i;
        storage.keeper = std::min(storage.keeper, until);
      }
    }
  }

  int add_tensor(const Storage& storage, bool recomputed) {
    const bool for_weights = storage.last_for_weights >= 0;
    const int tensor = static_cast<int>(result_.tensors.size());
    result_.tensors.push_back({storage.bytes, storage.weight_copy, storage.producer, storage.what,
                               recomputed, for_weights, storage.for_others, storage.held});
    if (for_weights) result_.last_for_weights.add(storage.last_for_weights, tensor);
    return tensor;
  }

  // End of a tensor that lives within a checkpoint segment: after the backward that needs it, or,
  // if none does, after its last reader in the recomputation.
  void die_inside(const Storage& storage, int tensor) {
    if (storage.keeper_inside != never) {
      result_.die_after_backward.add(storage.keeper_inside, tensor);
    } else {
      result_.die_after_recompute.add(std::max(storage.producer, storage.last_reader_inside),
                                      tensor);
    }
  }

  // Beginnings and ends of a storage's tensors: one of forward and, within a checkpoint segment,
  // another one of the recomputation. A storage with `kept` is not recomputed and lives from
  // forward to its backward. A weight copy within a segment remains in autocast's cache until the
  // forward pass ends.
  void add_lives(const Storage& storage) {
    if (storage.producer == never || storage.producer < 0) return;
    const int tensor = add_tensor(storage, false);
    result_.born_in_forward.add(storage.producer, tensor);
    const bool inside = result_.segment_of[storage.producer] >= 0;
    if (inside && storage.kept) return die_inside(storage, tensor);
    if (storage.keeper != never) {
      result_.die_after_backward.add(storage.keeper, tensor);
    } else if (storage.weight_copy && inside) {
      result_.die_after_forward_pass.push_back(tensor);
    } else {
      result_.die_after_forward.add(std::max(storage.producer, storage.last_reader), tensor);
    }
    if (!inside) return;
    const int recomputed = add_tensor(storage, true);
    result_.born_in_recompute.add(storage.producer, recomputed);
    die_inside(storage, recomputed);
  }

  const TrainingStep& step_;
  const bool host_;
  Liveness result_;
  std::vector<Storage> storages_;
};

}  // namespace

Liveness find_liveness(const TrainingStep& step, bool host) {
  return LivenessFinder(step, host).find();
}

}  // namespace lockstep
