#include "probes/other_memory.hpp"

#include <ATen/ATen.h>

namespace lockstep {

namespace {

// 192 MiB: as much as a rank with some ten million parameters goes through in a step.
constexpr std::int64_t floats = 48 << 20;

}  // namespace

void OtherMemory::pass() {
  if (!all_.defined()) all_ = at::zeros({floats});
  all_.add_(1);
}

}  // namespace lockstep
