// Replay of a Chakra execution trace (`lockstep replay`): nodes run when their dependencies have
// ended. Computation takes the recorded time; collectives take the recorded time, or the time that
// they have on another machine.
#pragma once

#include <string>
#include <vector>

#include "hardware/machine.hpp"
#include "results/chakra.hpp"

namespace lockstep {

// Figures of one rank's trace, in seconds unless named otherwise.
struct Replay {
  double step = 0;               // from the first start to the last end
  double compute = 0, host = 0;  // sums over device nodes and host nodes
  double communication = 0;      // sum over collectives and messages
  double alone = 0;              // communication while the device computes nothing
  double bytes = 0;              // sum over collectives and messages
};

// Returns the nodes with the durations that their collectives have on the first `ranks` GPUs of
// `machine`, each alone. Messages, copies and barriers keep their durations.
std::vector<ChakraNode> priced_on(std::vector<ChakraNode> nodes, const Machine& machine, int ranks);

// Plays the nodes. Device and host run one node at a time each, in the order in which nodes become
// ready; communication starts as soon as its dependencies have ended. `file` is the name in
// messages. Throws ConfigError if a node depends on a missing node, or dependencies form a circle.
Replay replay(const std::string& file, const std::vector<ChakraNode>& nodes);

}  // namespace lockstep
