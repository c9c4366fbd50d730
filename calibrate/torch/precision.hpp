// Numeric modes of real training: autocast, TF32, and denormal numbers as zero. Includes ATen, so
// only .cpp files may include it.
#pragma once

#include <ATen/ATen.h>

#include "workload/precision.hpp"

namespace lockstep {

// While an object exists, this thread computes as under torch.autocast, if the precision uses
// autocast. The destructor drops the copies of cast weights. Use it only around the forward pass.
class AutocastScope {
 public:
  AutocastScope(Precision precision, at::Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::Device device_;
  bool active_;
};

// Allows or forbids TF32 in float32 matrix products and convolutions of the whole process, as the
// precision says.
void allow_tf32(Precision precision);

// Makes the CPU treat numbers that are too small for a normal float as zero, in this thread and in
// threads that it starts later. Computing with such numbers is many times slower, so a step's time
// would depend on the progress of training. Every measuring process must call it first.
void flush_denormals();

}  // namespace lockstep
