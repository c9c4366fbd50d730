// Fits the `efficiency:` block of a device file to results of the CUDA probes. The shape law
// (KernelLaw) and the device's peaks stay as they are; only parameters that the probes determine
// are fitted. Method: docs/device-models.md.
#pragma once

#include <optional>
#include <string>

#include "cuda/measurements.hpp"

namespace lockstep::cuda {

struct FittedValue {
  std::optional<double> value;
  std::string why_not;                    // without a value
  int measured = 0;                       // rows that could tell it
  int points = 0;                         // rows among these that tell the value
  double median_error = 0, error_90 = 0;  // of |modeled / measured - 1| over the points
};

struct EfficiencyFit {
  FittedValue kernel_floor;  // seconds; the others are fractions
  FittedValue memory, matmul, matmul_fp32, convolution;
};

// `device` provides the peaks, and the efficiencies that cannot be fitted (for example a kernel
// floor, with which products are fitted). Throws ModelError for a convolution of absurd size.
EfficiencyFit fit_efficiency(const Measurements& measurements, const Device& device);

// "efficiency: {matmul: 79.6%, ...}\n" with the fitted values; empty if there are none.
std::string efficiency_text(const EfficiencyFit& fit);

// One line per figure for people: how many points, how close, or why it was left out.
std::string fit_report(const EfficiencyFit& fit);

}  // namespace lockstep::cuda
