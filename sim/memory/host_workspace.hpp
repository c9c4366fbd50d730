// Temporary memory that LibTorch's CPU kernels allocate during one call, besides their results. The
// rules were derived from measured steps (LibTorch 1.13 with oneDNN 2.6, AVX-512, one thread;
// docs/memory.md, "Workspaces"). Only the play of steps on CPUs uses them.
#pragma once

#include "workload/step.hpp"

namespace lockstep {

struct HostWorkspace {  // bytes
  double forward = 0;   // beside the output
  double backward = 0;  // beside the gradients of input and parameters
};

// The workspace of a layer whose weights have `element_bytes` bytes per element.
HostWorkspace host_workspace(const Layer& layer, int element_bytes);

}  // namespace lockstep
