// Minimum vertex cut: the cheapest set of graph nodes that separates sources from sinks.
// compiled_step.cpp uses it as PyTorch's min-cut partitioner does, to choose the values that
// forward keeps for backward: a kept value costs its bytes, all others are recomputed from kept
// ones.
#pragma once

#include <vector>

namespace lockstep {

// A directed graph of values; nodes are numbered from 0.
// REQUIRES: every path from a source to a sink has a node of finite weight; minimum_cut() throws
// std::logic_error otherwise.
struct CutGraph {
  struct Node {
    double weight = 0;    // cost of cutting the node
    bool source = false;  // it cannot be derived from its inputs
    bool sink = false;    // must be cut or computable from cut nodes
    std::vector<int> inputs;
  };
  std::vector<Node> nodes;
};

// Whether each node is cut. Every sink is then cut itself or can be computed from cut nodes. If
// several cuts are cheapest, the result is the one nearest to the sinks.
std::vector<bool> minimum_cut(const CutGraph& graph);

}  // namespace lockstep
