// Kernel times by shape from calibrate/reference/kernels/*.csv, as kernels of the workload.
// lockstep-fit uses them, and so does the test that checks the error of the shipped kernel model.
#pragma once

#include <string>
#include <vector>

#include "costs/kernel_model.hpp"

namespace lockstep {

struct KernelRow {
  std::string device;  // device file
  std::string kind;    // "product fp16", "product fp32", "convolution fp32", "add fp32", ...
  std::string shape;   // the shape as text, without the device
  Kernel kernel;
  // The library's algorithm, from the kernel's name; fastest = not known.
  Algorithm algorithm = Algorithm::fastest;
  int element_bytes = 4;
  double seconds = 0;     // measured
  bool with_gap = false;  // CUDA events enclosed one call, so the time includes a launch gap
  bool held_out = false;  // not fitted: a fifth of the shapes, the same on every device
};

// All rows of the folder's files. Throws ConfigError if a file cannot be read.
std::vector<KernelRow> load_kernel_rows(const std::string& folder);

}  // namespace lockstep
