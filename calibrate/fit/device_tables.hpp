// The tables that lockstep-fit prints. They show residuals and blocks for device files, after a fit
// or for the shipped models.
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

// log(modelled / measured).
double kernel_error(const KernelCase& c, const Models& models);

// `left_out`: relative errors of fits without the row's network, by row; may be empty.
void print_steps(const std::vector<ReferenceCase>& cases, const Models& models,
                 const std::vector<double>& left_out);
void print_kernels(const std::vector<KernelCase>& kernels, const Models& models);
// Writes platforms/devices/measured/*.csv, one file per chip, which all boards with the chip use.
void write_measured_kernels(const std::string& folder, const std::vector<KernelCase>& kernels,
                            const Models& models);
void print_blocks(const Models& models, const std::vector<ReferenceCase>& cases,
                  const std::vector<double>& left_out);

}  // namespace lockstep
