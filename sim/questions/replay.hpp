// Replay of a Chakra execution trace (`lockstep replay`): a node, which is one operation, runs when
// its dependencies have ended. Computation takes its recorded time. Collectives take their recorded
// time, or the time that they would take on another machine.
#pragma once

#include <string>
#include <vector>

#include "hardware/machine.hpp"
#include "results/chakra.hpp"

namespace lockstep {

// Results for one rank's trace, in seconds unless named otherwise.
struct Replay {
  double step = 0;               // from the first start to the last end
  double compute = 0, host = 0;  // sums over device nodes and host nodes
  double communication = 0;      // sum over collectives and messages
  double alone = 0;              // communication while the device computes nothing
  double bytes = 0;              // sum over collectives and messages
};

// Returns the nodes after setting the durations of collectives to the durations on the first
// `ranks` GPUs of `machine`, without other traffic. Messages, copies and barriers are unchanged.
std::vector<ChakraNode> priced_on(std::vector<ChakraNode> nodes, const Machine& machine, int ranks);

// Replays the nodes. The device runs one node after the other, in the order in which nodes become
// ready, and so does the host. Communication and copies start as soon as their dependencies have
// ended. `file` is the name in messages. Throws ConfigError if a node depends on a missing node, or
// if dependencies form a circle.
Replay replay(const std::string& file, const std::vector<ChakraNode>& nodes);

}  // namespace lockstep
