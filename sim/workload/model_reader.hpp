// Where model files are found, and reading one with the base models it builds on.
#pragma once

#include <string>

#include "workload/model_file.hpp"

namespace lockstep {

ModelFile read_model_file(const std::string& path);

// The file of model `name` (a shipped one, or a path ending in .yaml, relative to `beside` if it is
// not absolute and exists there); empty when there is none.
std::string find_model_file(const std::string& name, const std::string& beside);

}  // namespace lockstep
