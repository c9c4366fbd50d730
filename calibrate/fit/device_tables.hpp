// The tables that lockstep-fit prints. Call them after a fit, or on the shipped models.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fit/device_models.hpp"

namespace lockstep {

struct KernelCase {
  KernelRow row;
  Device device;
  std::string group;  // kind and device
};

// log(modelled / measured)
double kernel_error(const KernelCase& c, const Models& models);

// What a refit leaves out: all rows of one model, device or source.
struct LeftOut {
  std::string kind;
  std::function<std::string(const ReferenceRow&)> of;
  bool kernels = false;        // the device's kernels, too
  std::vector<double> errors{};  // relative, by row, each without the rows that are alike
};
// Errors by what was left out, as Markdown, and how many measured steps the 90 % intervals hold: of the device
// file's error, and for a left-out device of what files of derived devices state.
void print_left_out(const std::vector<ReferenceCase>& cases, const std::vector<LeftOut>& kinds);

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
