// Adds 1 to every element of a tensor that is larger than the caches. The tensor is made at the
// first pass, so probes that never call it use no memory.
#include "probes/other_memory.hpp"

#include <ATen/ATen.h>

namespace lockstep {

namespace {

// 192 MiB, about as much as a rank with ten million parameters accesses in a step.
constexpr std::int64_t floats = 48 << 20;

}  // namespace

void OtherMemory::pass() {
  if (!all_.defined()) all_ = at::zeros({floats});
  all_.add_(1);
}

}  // namespace lockstep
