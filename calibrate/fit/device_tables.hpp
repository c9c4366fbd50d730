// The tables that lockstep-fit prints. They show residuals and blocks for device files, after a fit
// or for the shipped models.
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

// log(modelled / measured).
double kernel_error(const KernelCase& c, const Models& models);

// A refit without some rows: the rows of one model, one device or one source.
struct LeftOut {
  std::string kind;
  std::function<std::string(const ReferenceRow&)> of;  // the value that left-out rows share
  bool kernels = false;  // measured kernels of the device are left out, too
  // Relative error of each row, predicted by the fit without the rows that share its value.
  std::vector<double> errors{};
};
// Prints the errors by left-out value as Markdown, and the share of measured steps inside the 90 %
// interval. The interval uses the device file's error; for a left-out device it uses the error that
// files of derived devices state.
void print_left_out(const std::vector<ReferenceCase>& cases, const std::vector<LeftOut>& kinds);

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
