// The unknowns of lockstep-fit: the shape law, the achieved fractions of the devices, and
// properties of measurement sources. Each unknown has physical bounds and a prior. So an unknown
// that the rows cannot determine stays at its value from data sheets and papers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fit/kernel_rows.hpp"
#include "fit/reference_rows.hpp"

namespace lockstep {

// The source of runs of PyTorch 1 on unknown hosts. They are often host-bound, so the speed of the
// hosts is fitted.
inline constexpr const char* batch_12 = "torchvision-batch-12";

struct Models {
  KernelLaw law;
  std::map<std::string, Efficiency> devices;
  double megatron_operator_seconds = 0, megatron_backward_share = 0;
  // Host seconds per operator of PyTorch 2, and of PyTorch 1.
  double operator_seconds = 0, old_operator_seconds = 0;
  // Parts of the measured times of single kernels that are not the kernel's.
  std::map<std::string, double> launch_gap, convolution_gap;  // seconds, by device
  // Speed of products that were measured one by one, on small numbers and a cool board, divided by
  // their speed in training.
  std::map<std::string, double> alone;  // by device
};

struct Unknown {
  std::string name;
  double start, lower, upper;
  double prior;  // one sigma of log(value / start)
  std::function<void(Models&, double)> set;
  std::vector<std::string> devices;  // devices on whose rows the unknown has an effect; empty = all
  std::string only;  // "kernels" or "steps": rows on which it has an effect; empty = both
};

// A device without rows, which takes over the fractions of a family.
struct Derived {
  std::string device;
  double clock = 1;  // sustained clock divided by the data sheet's, relative to the family's ratio
};
// Devices with common achieved fractions: they have the same architecture, kind of memory and power
// budget.
struct Family {
  std::string name;
  double matmul, attention;
  bool products;  // some rows determine the speed of matrix products in training
  std::vector<std::string> devices;
  std::vector<Derived> derived;
  double clock = 1;  // sustained clock divided by the data sheet's
};
const std::vector<Family>& families();

std::vector<Unknown> unknowns();
// The unknowns of sources (of kernel times and of old runs), which belong to no device.
std::vector<Unknown> circumstances();
Models build(const std::vector<Unknown>& list, const std::vector<double>& values,
             Models models = {});
// The models that the simulator uses: the law, the device files, and the share of backward in the
// host's time.
Models shipped();

double predicted(const ReferenceCase& reference, const Models& models);
double predicted(const KernelRow& row, const Device& device, const Models& models,
                 Algorithm algorithm = Algorithm::fastest);
// The part of a row's time in which no kernel runs: the host's share of a call in the row's source.
double gap(const KernelRow& row, const Models& models);

}  // namespace lockstep
