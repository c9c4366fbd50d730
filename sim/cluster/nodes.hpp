// The free GPUs of a cluster, by node. The scheduler uses it to place jobs. A job gets whole nodes,
// and a part of one further node for the remainder; the simulated speeds assume the same compact
// placement. The class is a value: policies plan on copies and keep the copy if the plan works.
#pragma once

#include <vector>

namespace lockstep {

// Some GPUs of one node.
struct Share {
  int node = 0, gpus = 0;
};
// The place of a job: whole nodes first, then at most one part of a node.
using Allocation = std::vector<Share>;

// GPUs of all shares together.
inline int gpus_in(const Allocation& allocation) {
  int gpus = 0;
  for (const Share& share : allocation) gpus += share.gpus;
  return gpus;
}

// Invariants: 0 <= free_on(node) <= gpus_per_node(); free_gpus() is the sum of free_on() over
// nodes.
class Nodes {
 public:
  Nodes(int nodes, int gpus_per_node);

  int gpus() const { return gpus_per_node_ * static_cast<int>(free_.size()); }
  int gpus_per_node() const { return gpus_per_node_; }
  int nodes() const { return static_cast<int>(free_.size()); }
  int free_gpus() const { return free_gpus_; }
  int free_on(int node) const { return free_[static_cast<std::size_t>(node)]; }
  // Whether place(gpus) finds enough entirely free nodes and a node for the remainder. Free GPUs
  // that are scattered over several nodes are not enough.
  bool fits(int gpus) const;
  // Chooses `gpus` free GPUs: entirely free nodes, and for the remainder the fullest node that has
  // enough free GPUs.
  // REQUIRES: fits(gpus).
  Allocation place(int gpus) const;
  // Whether all of the allocation's GPUs are free.
  bool has(const Allocation& allocation) const;
  // Marks the GPUs as used, or as free.
  // REQUIRES: has(allocation) before take(); the GPUs are in use before release().
  void take(const Allocation& allocation);
  void release(const Allocation& allocation);
  // Adds GPUs to `allocation` until it has `gpus`, without moving any. If there is no room, returns
  // false, and neither the allocation nor the nodes change.
  // REQUIRES: `allocation` is taken, and has at most `gpus`.
  bool grow(Allocation& allocation, int gpus);

 private:
  void change(int node, int gpus);

  int gpus_per_node_;
  int free_gpus_;
  std::vector<int> free_;   // free GPUs of each node
  std::vector<int> count_;  // by n: nodes with exactly n free GPUs
};

}  // namespace lockstep
