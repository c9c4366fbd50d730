// What LibTorch's CPU kernels allocate for the length of one call beside their results. Rules read
// off real steps (LibTorch 1.13 with oneDNN 2.6, AVX-512, one thread); docs/memory.md,
// "Workspaces".
#pragma once

#include "workload/step.hpp"

namespace lockstep {

struct HostWorkspace {  // bytes
  double forward = 0;   // beside the output
  double backward = 0;  // beside the gradients of input and parameters
};

HostWorkspace host_workspace(const Layer& layer, int element_bytes);

}  // namespace lockstep
