// Maximum flow by shortest augmenting paths (Dinic 1970). By the max-flow min-cut theorem, the
// saturated arcs between the two sides of the residual network are the cheapest cut.
// A vertex cut becomes an arc cut by node splitting: node i is an arc from end 2i to end 2i + 1
// with the node's weight as capacity; arcs between nodes have unlimited capacity.
#include "workload/minimum_cut.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace lockstep {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// Arcs with capacities. Arc a and its reverse a ^ 1 are adjacent in the list; flow along one arc is
// capacity of the other.
class FlowNetwork {
 public:
  explicit FlowNetwork(int ends) : arcs_of_(static_cast<std::size_t>(ends)) {}

  void connect(int from, int to, double capacity) {
    arcs_of_[from].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({to, capacity});
    arcs_of_[to].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({from, 0});
  }

  // Dinic's algorithm: as long as the sink can be reached, pushes flow along all shortest paths.
  void saturate(int source, int sink) {
    while (rank(source, true)[sink] >= 0) {
      next_.assign(arcs_of_.size(), 0);
      while (const double pushed = push(source, sink, unlimited)) {
        if (pushed == unlimited) throw std::logic_error("minimum cut: nothing may be cut");
      }
    }
  }

  // The ends from which the sink can be reached through residual capacity. They are the sink's side
  // of the cut that is nearest to the sink.
  std::vector<bool> reaches(int sink) {
    rank(sink, false);
    std::vector<bool> result;
    for (const int rank : rank_) result.push_back(rank >= 0);
    return result;
  }

 private:
  struct Arc {
    int to;
    double capacity;
  };

  // Distances in arcs from `start` (along = true) or to `start` (false), through arcs with
  // capacity; -1 = not reachable.
  const std::vector<int>& rank(int start, bool along) {
    rank_.assign(arcs_of_.size(), -1);
    rank_[start] = 0;
    std::vector<int> queue{start};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      for (const int arc : arcs_of_[queue[head]]) {
        const double capacity = arcs_[along ? arc : arc ^ 1].capacity;
        const int to = arcs_[arc].to;
        if (capacity <= 0 || rank_[to] >= 0) continue;
        rank_[to] = rank_[queue[head]] + 1;
        queue.push_back(to);
      }
    }
    return rank_;
  }

  // Pushes at most `limit` from `end` toward the sink, along arcs that lead one rank further;
  // returns 0 if there is no path left. next_ records the arcs that are exhausted in this phase.
  double push(int end, int sink, double limit) {
    if (end == sink) return limit;
    for (std::size_t& i = next_[end]; i < arcs_of_[end].size(); ++i) {
      Arc& arc = arcs_[arcs_of_[end][i]];
      if (arc.capacity <= 0 || rank_[arc.to] != rank_[end] + 1) continue;
      const double pushed = push(arc.to, sink, std::min(limit, arc.capacity));
      if (pushed <= 0) continue;
      arc.capacity -= pushed;
      arcs_[arcs_of_[end][i] ^ 1].capacity += pushed;
      return pushed;
    }
    return 0;
  }

  std::vector<std::vector<int>> arcs_of_;
  std::vector<Arc> arcs_;
  std::vector<int> rank_;
  std::vector<std::size_t> next_;
};

}  // namespace

std::vector<bool> minimum_cut(const CutGraph& graph) {
  const int count = static_cast<int>(graph.nodes.size());
  const int source = 2 * count, sink = 2 * count + 1;
  FlowNetwork network(2 * count + 2);
  for (int i = 0; i < count; ++i) {
    const CutGraph::Node& node = graph.nodes[i];
    network.connect(2 * i, 2 * i + 1, node.weight);
    if (node.source) network.connect(source, 2 * i, unlimited);
    if (node.sink) network.connect(2 * i + 1, sink, unlimited);
    for (const int input : node.inputs) network.connect(2 * input + 1, 2 * i, unlimited);
  }
  network.saturate(source, sink);
  const std::vector<bool> reaches = network.reaches(sink);
  std::vector<bool> cut;
  for (int i = 0; i < count; ++i) cut.push_back(!reaches[2 * i] && reaches[2 * i + 1]);
  return cut;
}

}  // namespace lockstep
