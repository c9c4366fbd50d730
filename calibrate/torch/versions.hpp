// Versions of the libraries that compute and communicate, for a profile.
#pragma once

#include <vector>

#include "costs/profile.hpp"

namespace lockstep {

// libtorch, oneDNN, and the BLAS that is loaded ("openblas 0.3.21").
std::vector<ProfileVersion> library_versions();

}  // namespace lockstep
