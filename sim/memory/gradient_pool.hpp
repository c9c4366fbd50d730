// Gradients of layer outputs, shared by reference as autograd shares them.
#pragma once

#include <string_view>
#include <vector>

#include "memory/tape.hpp"

namespace lockstep {

class GradientPool {
 public:
  GradientPool(Tape& tape, std::size_t layers) : tape_(tape), of_(layers) {}

  // `of`: the layer of the output.
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
  void release(int id) {
    if (id < 0 || --shared_[id].holders > 0) return;
    tape_.free(shared_[id].block);
    unused_.push_back(id);
  }
  // Hands one holder's share of `id` to layer `to`. A second arrival is added in place when nobody
  // else holds the first, which must be a whole tensor; otherwise the sum is a new one.
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
