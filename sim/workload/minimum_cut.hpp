// The cheapest set of graph nodes that separates sources from sinks.
#pragma once

#include <vector>

namespace lockstep {

// Nodes are numbered from 0. A node is cut, kept on the source's side or reached from the sink's side.
// REQUIRES: every path from a source to a sink has a node of finite weight; minimum_cut() throws
// std::logic_error otherwise.
struct CutGraph {
  struct Node {
    double weight = 0;    // of cutting it
    bool source = false;  // it cannot be derived from its inputs
    bool sink = false;    // it is asked for
    std::vector<int> inputs;
  };
  std::vector<Node> nodes;
};

// For each node whether it is cut, so that each sink is cut or follows from nodes that are. Of several
// cheapest cuts the one nearest to the sinks.
std::vector<bool> minimum_cut(const CutGraph& graph);

}  // namespace lockstep
