// When the tensors of one TrainingStep come to life and die, in the order of execution: what
// follows from the graph alone, whatever the strategy. step_memory plays it through an allocator.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "workload/step.hpp"

namespace lockstep {

// One list of ints per layer, stored flat.
class LayerLists {
 public:
  void add(int layer, int value) { items_.push_back({layer, value}); }
  void finish(std::size_t layers);  // after the last add(); keeps the order of addition
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

// Layers [first, last] that are recomputed together: a maximal run of checkpointed layers of one
// block.
struct CheckpointSegment {
  int first = 0, last = 0;
};

struct Liveness {
  struct Tensor {
    std::int64_t bytes = 0;
    bool weight_copy = false;  // autocast's half-precision copy of a parameter (fact 22)
    int layer = 0;             // whose forward allocates it,
    std::string_view what{};   // and as what: "output", or the name of what backward needs
    bool recomputed = false;   // not forward's own, but what a checkpoint segment makes again
    bool for_weights = false;  // a product that gives weights' gradients needs it,
    bool for_others = false;   // other backward work does
    bool held = false;         // by the host's program
  };
  std::vector<Tensor> tensors;

  LayerLists born_in_forward, die_after_forward;      // indices into `tensors`, by layer
  LayerLists born_in_recompute, die_after_recompute;  // layers of checkpoint segments only
  LayerLists die_after_backward;
  LayerLists last_for_weights;  // of what weights' gradients need: the last layer that does
  std::vector<int> die_after_forward_pass;  // what autocast's cache alone keeps

  std::vector<CheckpointSegment> segments;
  std::vector<int> segment_of;  // by layer, -1 = none

  std::vector<std::uint8_t> needs_gradient;  // the layer's output takes part in backward
};

// `host`: the step runs on a CPU, where the mask of a dropout has the type of its output; on GPUs
// it has one byte per element.
Liveness find_liveness(const TrainingStep& step, bool host);

// Weights' gradients are a product of their own: linear layers and convolutions.
bool has_weight_product(const Layer& layer);

// Tensor sizes are doubles in the step; nothing that is asked for exceeds this (and no device has
// it).
std::int64_t whole_bytes(double bytes);

}  // namespace lockstep
