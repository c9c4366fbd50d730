// Lifetimes of the tensors of one TrainingStep: for each layer, the tensors that its forward,
// recomputation or backward allocates and frees. Lifetimes follow only from the graph and are equal
// for all strategies; layer_player.hpp carries them out on an allocator.
//
//   forward    | layer 0 | layer 1 | layer 2 |   an output dies after its last reader in forward,
//   backward   | layer 2 | layer 1 | layer 0 |   a saved tensor after the backward of the first
//                                                layer that saved it
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

// One list of ints per layer, stored in one flat vector because steps have thousands of short
// lists.
// REQUIRES: finish() is called between the last add() and the first of().
class LayerLists {
 public:
  void add(int layer, int value) { items_.push_back({layer, value}); }
  // Sorts the items by layer (a counting sort); keeps the order of addition within a layer.
  void finish(std::size_t layers);
  std::span<const int> of(int layer) const {
    return {values_.data() + begin_[layer], values_.data() + begin_[layer + 1]};
  }

 private:
  struct Item {
    int layer, value;
  };
  std::vector<Item> items_;
  std::vector<int> values_;
  std::vector<std::size_t> begin_;
};

// Layers [first, last] that are recomputed together: a maximal run of consecutive checkpointed
// layers of one block.
struct CheckpointSegment {
  int first = 0, last = 0;
};

// All lifetimes of a step. A storage inside of a checkpointed segment appears as two tensors, one
// of forward and one of the recomputation.
struct Liveness {
  struct Tensor {
    std::int64_t bytes = 0;
    bool weight_copy = false;  // autocast's half-precision copy of a parameter (fact 22)
    int layer = 0;             // the layer whose forward allocates it
    std::string_view what{};   // "output", or the name of the saved tensor
    bool recomputed = false;   // allocated by the recomputation of a checkpoint segment
    bool for_weights = false;  // a product for a weight's gradient needs it
    bool for_others = false;   // other backward work needs it
    bool held = false;         // the host's program holds a reference
  };
  std::vector<Tensor> tensors;

  LayerLists born_in_forward, die_after_forward;      // indices into `tensors`, by layer
  LayerLists born_in_recompute, die_after_recompute;  // layers of checkpoint segments only
  LayerLists die_after_backward;
  LayerLists last_for_weights;  // by the last layer whose weight gradient needs the tensor
  std::vector<int> die_after_forward_pass;  // weight copies that only autocast's cache holds

  std::vector<CheckpointSegment> segments;
  std::vector<int> segment_of;  // by layer, -1 = none

  std::vector<std::uint8_t> needs_gradient;  // the layer's output takes part in backward
};

// `host`: the step runs on a CPU, where the mask of a dropout has the type of its output. On GPUs a
// mask has one byte per element.
// REQUIRES: `step` outlives the result, whose texts point into it.
Liveness find_liveness(const TrainingStep& step, bool host);

// Whether backward computes the weights' gradients by a separate product, as for linear layers and
// convolutions. Megatron-LM's split pipeline schedules postpone only these gradients, PyTorch's
// postpone all.
bool has_weight_product(const Layer& layer);

// Bytes of a tensor as an integer. Sizes in a step are doubles. The result is limited to 4 TiB,
// more than any device has, so that sums cannot overflow.
std::int64_t whole_bytes(double bytes);

}  // namespace lockstep
