// The free GPUs of a cluster. Used by the scheduler to place jobs. A job is placed as compactly as
// the simulator assumes for its speed: whole nodes, and the remainder on one further node.
#pragma once

#include <vector>

namespace lockstep {

struct Share {
  int node = 0, gpus = 0;
};
using Allocation = std::vector<Share>;  // whole nodes first

inline int gpus_in(const Allocation& allocation) {
  int gpus = 0;
  for (const Share& share : allocation) gpus += share.gpus;
  return gpus;
}

class Nodes {
 public:
  Nodes(int nodes, int gpus_per_node);

  int gpus() const { return gpus_per_node_ * static_cast<int>(free_.size()); }
  int gpus_per_node() const { return gpus_per_node_; }
  int nodes() const { return static_cast<int>(free_.size()); }
  int free_gpus() const { return free_gpus_; }
  int free_on(int node) const { return free_[static_cast<std::size_t>(node)]; }
  bool fits(int gpus) const;
  // The place for so many GPUs: the remainder goes to the fullest node with enough room. The GPUs
  // must fit.
  Allocation place(int gpus) const;
  bool has(const Allocation& allocation) const;  // whether all of it is free
  void take(const Allocation& allocation);
  void release(const Allocation& allocation);
  // Adds GPUs to `allocation` until it has `gpus`, without moving any; false if there is no room,
  // and nothing changes.
  bool grow(Allocation& allocation, int gpus);

 private:
  void change(int node, int gpus);

  int gpus_per_node_;
  int free_gpus_;
  std::vector<int> free_;   // of each node
  std::vector<int> count_;  // nodes with so many free
};

}  // namespace lockstep
