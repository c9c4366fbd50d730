// Minimum vertex cut: the cheapest set of graph nodes that separates sources from sinks.
// compiled_step.cpp uses it, like PyTorch's min-cut partitioner, to choose the values that forward
// saves for backward: a saved value costs its bytes, and all others are recomputed from saved ones.
#pragma once

#include <vector>

namespace lockstep {

// A directed graph of values; nodes are numbered from 0.
// REQUIRES: every path from a source to a sink has a node of finite weight; minimum_cut() throws
// std::logic_error otherwise.
struct CutGraph {
  struct Node {
    double weight = 0;    // cost of cutting the node
    bool source = false;  // whether it cannot be computed from its inputs
    bool sink = false;    // whether it must be cut, or computable from cut nodes
    std::vector<int> inputs;
  };
  std::vector<Node> nodes;
};

// By node: whether it is cut. Every sink is then cut itself or can be computed from cut nodes. If
// there are several cheapest cuts, the result is the one nearest to the sinks.
std::vector<bool> minimum_cut(const CutGraph& graph);

}  // namespace lockstep
