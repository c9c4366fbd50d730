// Gradients of layer outputs during a backward, with reference counts as autograd's tensors have
// them. Layers that pass a gradient on unchanged (additions, views) share one block instead of
// allocating another one, which lowers the peak.
#pragma once

#include <string_view>
#include <vector>

#include "memory/tape.hpp"

namespace lockstep {

// One pool per micro-batch in flight. A gradient is named by an id, and every holder must release
// it once.
class GradientPool {
 public:
  GradientPool(Tape& tape, std::size_t layers) : tape_(tape), of_(layers) {}

  // Allocates a gradient of `bytes` bytes with one holder and returns its id. `of`: name of the
  // layer for whose output the gradient is.
  int fresh(double bytes, std::string_view of) {
    const Tape::Block block =
        tape_.allocate(MemoryKind::activation_gradients, bytes, {"output", of});
    if (unused_.empty()) {
      shared_.push_back({block, 1});
      return static_cast<int>(shared_.size()) - 1;
    }
    const int id = unused_.back();
    unused_.pop_back();
    shared_[id] = {block, 1};
    return id;
  }
  void hold(int id) { ++shared_[id].holders; }
  // Removes one holder; when the last one is removed, the block is freed. A negative id is allowed
  // and does nothing.
  void release(int id) {
    if (id < 0 || --shared_[id].holders > 0) return;
    tape_.free(shared_[id].block);
    unused_.push_back(id);
  }
  // Passes one holder's reference to gradient `id` on to layer `to`, as a gradient of that layer's
  // output. `slice`: the gradient is a view of a part of a tensor. A second gradient of the same
  // output is added in place if the first one is a whole tensor with no other holder; otherwise the
  // sum is a new tensor.
  void deliver(int to, int id, bool slice, const Layer& of) {
    Arrived& arrived = of_[to];
    if (arrived.id < 0) {
      arrived = {id, slice};
    } else if (shared_[arrived.id].holders == 1 && !arrived.slice) {
      release(id);
    } else {
      const int sum = fresh(of.output_bytes, of.name);
      release(arrived.id);
      release(id);
      arrived = {sum, false};
    }
  }
  // Removes and returns the gradient of the layer's output, with its reference; -1 = no gradient
  // has arrived.
  int take(int layer) {
    const int id = of_[layer].id;
    of_[layer] = {};
    return id;
  }

 private:
  using Block = Tape::Block;
  struct Shared {
    Block block;
    int holders;
  };
  struct Arrived {
    int id = -1;
    bool slice = false;
  };
  Tape& tape_;
  std::vector<Shared> shared_;
  std::vector<int> unused_;
  std::vector<Arrived> of_;
};

}  // namespace lockstep
