// Which devices LibTorch can compute on here. Plain header.
#pragma once

#include <string>

namespace lockstep {

// Throws ConfigError naming --device when `device` is no device ("cpu", "cuda:0") or not here.
void check_device(const std::string& device);

}  // namespace lockstep
