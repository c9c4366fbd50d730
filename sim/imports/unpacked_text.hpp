// Reads files that may be compressed, as PyTorch's tensorboard_trace_handler(use_gzip=True) writes
// them. Use it for traces and measurements.
#pragma once

#include <string>

namespace lockstep {

// The whole file, unpacked if it begins as gzip does; the name does not matter. Throws ConfigError
// if the file cannot be read, is too large, or its compressed data is damaged or incomplete.
std::string unpacked_text(const std::string& path);

}  // namespace lockstep
