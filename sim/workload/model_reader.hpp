// Where model files are found, and reading one with the base models it builds on.
#pragma once

#include <string>

#include "workload/model_file.hpp"

namespace lockstep {

ModelFile read_model_file(const std::string& path);

// The file of model `name`: a path (it has a slash or ends in .yaml), relative to `beside` if it is
// there, or a shipped model; empty when no such model is shipped.
std::string find_model_file(const std::string& name, const std::string& beside);

}  // namespace lockstep
