// Sends other memory through the caches between two measured actions. Probes use it if their data
// is in no cache during training.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

// Represents memory that is used between two measured actions, for example a server's parameters
// and gradients, other messages, or a step between two messages. The memory of a small network may
// stay in a large last-level cache if nothing else runs, but not while messages arrive and leave.
class OtherMemory {
 public:
  // Reads and writes the whole memory.
  void pass();

 private:
  at::Tensor all_;  // allocated by the first pass()
};

}  // namespace lockstep
