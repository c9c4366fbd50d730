// Counts the free GPUs of each node, and places jobs on as few nodes as possible (best fit: the
// remainder of a job goes to the fullest node with room). Single GPUs have no identity, only their
// node matters. `count_[n]` is the number of nodes with exactly n free GPUs; with it the time of
// fits() grows with the GPUs of a node, not with the number of nodes.
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

// A job of g GPUs needs g / gpus_per_node entirely free nodes, and one further node with at least
// as many free GPUs as the remainder.
bool Nodes::fits(int gpus) const {
  const int whole = gpus / gpus_per_node_, rest = gpus % gpus_per_node_;
  if (gpus > free_gpus_ || count_.back() < whole) return false;
  // A further entirely free node holds any remainder; otherwise a partly free node must hold it.
  if (rest == 0 || count_.back() > whole) return true;
  return std::accumulate(count_.begin() + rest, count_.end() - 1, 0) > 0;
}

// One pass over the nodes takes the first entirely free nodes as whole nodes, and finds `best`, the
// fullest node that can hold the remainder. Ties go to the lowest number, so that placement is
// deterministic.
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

// The last share first grows to a whole node, because growth must not move GPUs that the job has.
// Further GPUs are placed like a separate job. On failure the free counts are restored.
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

// Adds `gpus` (may be negative) to the free GPUs of a node, and counts the node under its new
// number in `count_`.
void Nodes::change(int node, int gpus) {
  int& free = free_[static_cast<std::size_t>(node)];
  --count_[static_cast<std::size_t>(free)];
  free += gpus;
  ++count_[static_cast<std::size_t>(free)];
  free_gpus_ += gpus;
}

}  // namespace lockstep
