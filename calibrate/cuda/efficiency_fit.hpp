// Fits the `efficiency:` block of a device file to results of the CUDA probes. Only parameters that
// the probes determine are fitted; the shape law (KernelLaw) and the device's peaks stay unchanged.
// docs/device-models.md describes the method.
#pragma once

#include <optional>
#include <string>

#include "cuda/measurements.hpp"

namespace lockstep::cuda {

struct FittedValue {
  std::optional<double> value;
  std::string why_not;                    // reason for having no value
  int measured = 0;                       // rows of this kind of operation
  int points = 0;                         // rows among these to which the value is fitted
  double median_error = 0, error_90 = 0;  // of |modelled / measured - 1| over the points
};

struct EfficiencyFit {
  FittedValue kernel_floor;  // seconds; the others are fractions
  FittedValue memory, matmul, matmul_fp32, convolution;
};

// `device` provides the peaks, and values for efficiencies that cannot be fitted (for example the
// kernel floor, on which the fit of products depends). Throws ModelError for a convolution that is
// too large for the model.
EfficiencyFit fit_efficiency(const Measurements& measurements, const Device& device);

// "efficiency: {matmul: 79.6%, ...}\n" with the fitted values; empty if there are none.
std::string efficiency_text(const EfficiencyFit& fit);

// One line for each fitted value: the number of points and the error, or the reason for having no
// value.
std::string fit_report(const EfficiencyFit& fit);

}  // namespace lockstep::cuda
