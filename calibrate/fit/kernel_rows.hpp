// Kernel times by shape in calibrate/reference/kernels/*.csv, as kernels of the workload. Used by
// lockstep-fit and by the test that keeps the shipped kernel model within its bar.
#pragma once

#include <string>
#include <vector>

#include "costs/kernel_model.hpp"

namespace lockstep {

struct KernelRow {
  std::string device;  // device file
  std::string kind;    // "product fp16", "product fp32", "convolution fp32", "add fp32", ...
  std::string shape;   // as the file writes it, without the device
  Kernel kernel;
  // The library's algorithm, from the kernel's name; fastest = not known.
  Algorithm algorithm = Algorithm::fastest;
  int element_bytes = 4;
  double seconds = 0;     // measured
  bool with_gap = false;  // CUDA events around one call: launch gap included
  bool held_out = false;  // a fifth of the shapes, by hash: the same for every device
};

// All rows of the folder's files; throws ConfigError when one cannot be read.
std::vector<KernelRow> load_kernel_rows(const std::string& folder);

}  // namespace lockstep
