// Temporary memory that LibTorch's CPU kernels allocate during one call, besides their results. The
// rules were derived from measured steps (LibTorch 1.13 with oneDNN 2.6, AVX-512, one thread;
// docs/memory.md, "Workspaces"). Only simulations of memory on CPUs use them.
#pragma once

#include "workload/step.hpp"

namespace lockstep {

struct HostWorkspace {  // bytes
  double forward = 0;   // in addition to the output
  double backward = 0;  // in addition to the gradients of input and parameters
};

// The workspace of a layer whose weights have `element_bytes` bytes per element.
HostWorkspace host_workspace(const Layer& layer, int element_bytes);

}  // namespace lockstep
