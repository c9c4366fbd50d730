// Which GPUs of a cluster are free. A job lies as compactly as the simulator assumes for its speed:
// whole nodes, and what remains on one further node.
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
  // Where so many GPUs would lie, the remainder on the fullest node that has room for it. They must
  // fit.
  Allocation place(int gpus) const;
  bool has(const Allocation& allocation) const;  // all of it free?
  void take(const Allocation& allocation);
  void release(const Allocation& allocation);
  // Takes what `allocation` lacks of `gpus` without moving what it has; false: no room, unchanged.
  bool grow(Allocation& allocation, int gpus);

 private:
  void change(int node, int gpus);

  int gpus_per_node_;
  int free_gpus_;
  std::vector<int> free_;   // of each node
  std::vector<int> count_;  // nodes with so many free
};

}  // namespace lockstep
