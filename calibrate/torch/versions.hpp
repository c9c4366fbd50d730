// Versions of the libraries that compute and communicate, and their limits. Recorded in profiles.
#pragma once

#include <vector>

#include "costs/profile.hpp"
#include "workload/model.hpp"

namespace lockstep {

// libtorch, oneDNN, and the BLAS that is loaded ("openblas 0.3.21").
std::vector<ProfileVersion> library_versions();
// Adapts options to LibTorch's release: plain attention only before 2.0.
void adapt_to_library(StepOptions& options);

}  // namespace lockstep
