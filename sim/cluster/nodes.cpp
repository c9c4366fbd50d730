// Counts the free GPUs of each node, and places jobs on as few nodes as possible (best fit: the
// remainder of a job goes to the fullest node with room). Single GPUs have no identity, only their
// node matters. `count_[n]`, the number of nodes with exactly n free GPUs, makes fits() a sum over
// GPUs per node rather than over nodes.
#include "cluster/nodes.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

Nodes::Nodes(int nodes, int gpus_per_node)
    : gpus_per_node_(gpus_per_node),
      free_gpus_(nodes * gpus_per_node),
      free_(static_cast<std::size_t>(nodes), gpus_per_node),
      count_(static_cast<std::size_t>(gpus_per_node) + 1, 0) {
  count_.back() = nodes;
}

// A job of g GPUs needs g / gpus_per_node entirely free nodes, and for the remainder one further
// node with so many free GPUs.
bool Nodes::fits(int gpus) const {
  const int whole = gpus / gpus_per_node_, rest = gpus % gpus_per_node_;
  if (gpus > free_gpus_ || count_.back() < whole) return false;
  // A further entirely free node holds any remainder; else look for a partly free one.
  if (rest == 0 || count_.back() > whole) return true;
  return std::accumulate(count_.begin() + rest, count_.end() - 1, 0) > 0;
}

// One pass over the nodes: the first free nodes become the whole ones, and `best` the fullest node
// that holds the remainder. Ties go to the lowest number, so that placement is deterministic.
Allocation Nodes::place(int gpus) const {
  int whole = gpus / gpus_per_node_;
  const int rest = gpus % gpus_per_node_;
  Allocation allocation;
  int best = -1;
  for (int node = 0; node < static_cast<int>(free_.size()); ++node) {
    const int room = free_[static_cast<std::size_t>(node)];
    if (whole > 0 && room == gpus_per_node_) {
      allocation.push_back({node, gpus_per_node_});
      --whole;
    } else if (rest > 0 && room >= rest &&
               (best < 0 || room < free_[static_cast<std::size_t>(best)])) {
      best = node;
    }
  }
  if (rest > 0) allocation.push_back({best, rest});
  return allocation;
}

bool Nodes::has(const Allocation& allocation) const {
  return std::all_of(allocation.begin(), allocation.end(), [&](const Share& share) {
    return free_[static_cast<std::size_t>(share.node)] >= share.gpus;
  });
}

void Nodes::take(const Allocation& allocation) {
  for (const Share& share : allocation) change(share.node, -share.gpus);
}

void Nodes::release(const Allocation& allocation) {
  for (const Share& share : allocation) change(share.node, share.gpus);
}

// The last share first fills up to a whole node, because growth must not move GPUs that the job
// has. Further GPUs are placed like a job of their own. On failure the books are restored.
bool Nodes::grow(Allocation& allocation, int gpus) {
  Allocation grown = allocation;
  int lacking = gpus - gpus_in(allocation);
  if (!grown.empty() && grown.back().gpus < gpus_per_node_) {
    Share& last = grown.back();
    const int more = std::min(lacking, gpus_per_node_ - last.gpus);
    if (free_[static_cast<std::size_t>(last.node)] < more) return false;
    last.gpus += more;
    lacking -= more;
  }
  release(allocation);
  take(grown);
  if (lacking > 0 && !fits(lacking)) {
    release(grown);
    take(allocation);
    return false;
  }
  if (lacking > 0) {
    const Allocation added = place(lacking);
    take(added);
    grown.insert(grown.end(), added.begin(), added.end());
  }
  allocation = std::move(grown);
  return true;
}

// Adds `gpus` (negative: takes) to the free ones of a node, and moves the node to its new class in
// `count_`.
void Nodes::change(int node, int gpus) {
  int& free = free_[static_cast<std::size_t>(node)];
  --count_[static_cast<std::size_t>(free)];
  free += gpus;
  ++count_[static_cast<std::size_t>(free)];
  free_gpus_ += gpus;
}

}  // namespace lockstep
