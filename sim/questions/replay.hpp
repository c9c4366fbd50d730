// `lockstep replay`: a Chakra trace as a workload. Nodes run when what they depend on is through;
// what a rank computes lasts as recorded, collectives as recorded or as long as on another machine.
#pragma once

#include <string>
#include <vector>

#include "hardware/machine.hpp"
#include "results/chakra.hpp"

namespace lockstep {

// Seconds, of one rank's trace.
struct Replay {
  double step = 0;  // from the first start to the last end
  double compute = 0, host = 0;
  double communication = 0;  // sum over collectives and messages
  double alone = 0;          // while something is sent and the device computes nothing
  double bytes = 0;          // sum over collectives and messages
};

// The trace with the durations that its collectives have on the first `ranks` GPUs of a machine,
// one by one. Messages and copies stay as they are.
std::vector<ChakraNode> priced_on(std::vector<ChakraNode> nodes, const Machine& machine, int ranks);

// Device and host do one node at a time each, in the order in which nodes become ready;
// communication takes place as soon as it can. Throws ConfigError: dependencies on nodes that are
// not there, or in a circle.
Replay replay(const std::string& file, const std::vector<ChakraNode>& nodes);

}  // namespace lockstep
