// Versions of the libraries that compute, and limits of LibTorch's release. Profiles record the
// versions.
#pragma once

#include <vector>

#include "costs/profile.hpp"
#include "workload/model.hpp"

namespace lockstep {

// LibTorch, oneDNN, and the loaded BLAS ("mkl 2024.2", or its file,
// "openblas-pthread/libblas.so.3").
std::vector<ProfileVersion> library_versions();
// Adapts options to LibTorch's release: before 2.0, attention is never fused.
void adapt_to_library(StepOptions& options);

}  // namespace lockstep
