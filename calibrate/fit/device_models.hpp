// The unknowns of lockstep-fit: the shape law, the achieved fractions of the devices, and
// properties of measurement sources. Each unknown has physical bounds and a prior, so that unknowns
// that the rows cannot separate stay at the values of data sheets and papers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fit/kernel_rows.hpp"
#include "fit/reference_rows.hpp"

namespace lockstep {

// Runs of PyTorch 1 on unknown hosts: often host-bound, so the hosts have a fitted speed.
inline constexpr const char* batch_12 = "torchvision-batch-12";

struct Models {
  KernelLaw law;
  std::map<std::string, Efficiency> devices;
  double megatron_operator_seconds = 0, megatron_backward_share = 0;
  double operator_seconds = 0, old_operator_seconds = 0;  // of PyTorch 2 and of PyTorch 1
  // Parts of measured times of single kernels besides the kernel.
  std::map<std::string, double> launch_gap, convolution_gap;  // seconds, by device
  // Speed of products measured alone, on small numbers and a cool board, over speed in training.
  std::map<std::string, double> alone;  // by device
};

struct Unknown {
  std::string name;
  double start, lower, upper;
  double prior;  // one sigma of log(value / start)
  std::function<void(Models&, double)> set;
  std::vector<std::string> devices;  // whose rows it matters for; empty = all
  std::string only;                  // "kernels" or "steps": the rows it matters for; empty = both
};

// Devices without rows of their own take the fractions of a family over.
struct Derived {
  std::string device;
  double clock = 1;  // sustained clock over the data sheet's, relative to the family's
};
// Devices that share achieved fractions: same architecture, same kind of memory and power budget.
struct Family {
  std::string name;
  double matmul, attention;
  bool products;  // has rows that tell the speed of matrix products in training
  std::vector<std::string> devices;
  std::vector<Derived> derived;
  double clock = 1;  // sustained over the data sheet's
};
const std::vector<Family>& families();

std::vector<Unknown> unknowns();
// The unknowns of sources of kernel times and old runs, which belong to no device.
std::vector<Unknown> circumstances();
Models build(const std::vector<Unknown>& list, const std::vector<double>& values,
             Models models = {});
// The models in use: the law, the device files, the host's own dispatch times.
Models shipped();

double predicted(const ReferenceCase& reference, const Models& models);
double predicted(const KernelRow& row, const Device& device, const Models& models,
                 Algorithm algorithm = Algorithm::fastest);
// The part of a row's time that is no kernel: the host's share of a call in the row's source.
double gap(const KernelRow& row, const Models& models);

}  // namespace lockstep
