// Reads files that may be compressed by gzip, as PyTorch's tensorboard_trace_handler(use_gzip=True)
// writes them. Importers use it for traces and measurements.
#pragma once

#include <string>

namespace lockstep {

// Returns the whole file, unpacked if it begins with gzip's first two bytes. Its name has no
// effect. Throws ConfigError if the file cannot be read, is too large, or its compressed data is
// damaged or incomplete.
std::string unpacked_text(const std::string& path);

}  // namespace lockstep
