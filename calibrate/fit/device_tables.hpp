// The tables that lockstep-fit prints. Call them after a fit, or on the shipped models.
#pragma once

#include <string>
#include <vector>

#include "fit/device_models.hpp"

namespace lockstep {

struct KernelCase {
  KernelRow row;
  Device device;
  std::string group;  // kind and device
};

// log(modeled / measured)
double kernel_error(const KernelCase& c, const Models& models);

// `left_out`, relative errors by row, may be empty.
void print_steps(const std::vector<ReferenceCase>& cases, const Models& models,
                 const std::vector<double>& left_out);
void print_kernels(const std::vector<KernelCase>& kernels, const Models& models);
// Writes platforms/devices/measured/*.csv: one file per chip, which its boards share.
void write_measured_kernels(const std::string& folder, const std::vector<KernelCase>& kernels,
                            const Models& models);
void print_blocks(const Models& models, const std::vector<ReferenceCase>& cases,
                  const std::vector<double>& left_out);

}  // namespace lockstep
