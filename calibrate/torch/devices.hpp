// Checks of the device and the precision that a user asks for. Includes no LibTorch.
#pragma once

#include <string>

#include "workload/precision.hpp"

namespace lockstep {

// Throws ConfigError about --device if `device` is no device ("cpu", "cuda:0"), or if this machine
// does not have it.
void check_device(const std::string& device);
// Throws ConfigError about `option` if the device cannot compute in this precision.
void check_precision(const std::string& option, Precision precision, const std::string& device);

}  // namespace lockstep
