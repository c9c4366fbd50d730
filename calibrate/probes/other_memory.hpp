// Memory traffic through the caches between two actions of a rank. Use it in probes whose data is
// not in a cache during training.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

// Represents memory that is used between two measured actions: a server's parameters and gradients,
// messages on their way, a step between two messages. A small network's memory may stay in a large
// last-level cache that many processes share; where messages come and go it does not.
class OtherMemory {
 public:
  // Reads and writes the whole memory.
  void pass();

 private:
  at::Tensor all_;  // made at the first pass
};

}  // namespace lockstep
