// Numeric modes of real training. Includes ATen: only for .cpp files.
#pragma once

#include <ATen/ATen.h>

#include "workload/precision.hpp"

namespace lockstep {

// While it lives, calls of this thread compute as under torch.autocast, if the precision is one of
// autocast's; weights that were cast are dropped with it. For the forward pass only.
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

// Whether matrix products and convolutions of float32 may use TF32: for the whole process.
void allow_tf32(Precision precision);

// Has the CPU take numbers too small for a normal float as zero: of this thread and the threads it
// starts from now on. Computing with them is many times slower, so that a step's time would depend
// on how far training has come. Every process that measures calls it first.
void flush_denormals();

}  // namespace lockstep
