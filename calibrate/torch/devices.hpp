// The devices on which LibTorch can compute here, and how to use them. Plain header.
#pragma once

#include <string>

#include "workload/precision.hpp"

namespace lockstep {

// Throws ConfigError naming --device when `device` is no device ("cpu", "cuda:0") or not here.
void check_device(const std::string& device);
// Throws ConfigError naming `option` when the device cannot compute in this precision.
void check_precision(const std::string& option, Precision precision, const std::string& device);

}  // namespace lockstep
