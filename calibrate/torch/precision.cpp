// Switches autocast and TF32 through LibTorch's global state. The functions for autocast changed in
// LibTorch 2.4. Leaving the scope clears autocast's cache of cast weights, as torch.autocast does.
#include "torch/precision.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace lockstep {

namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void set_autocast(at::Device device, bool on, at::ScalarType type) {
  at::autocast::set_autocast_dtype(device.type(), type);
  at::autocast::set_autocast_enabled(device.type(), on);
}
#else
void set_autocast(at::Device device, bool on, at::ScalarType type) {
  if (device.is_cpu()) {
    at::autocast::set_autocast_cpu_dtype(type);
    at::autocast::set_cpu_enabled(on);
  } else {
    at::autocast::set_autocast_gpu_dtype(type);
    at::autocast::set_enabled(on);
  }
}
#endif

}  // namespace

AutocastScope::AutocastScope(Precision precision, at::Device device)
    : device_(device), active_(is_autocast(precision)) {
  if (!active_) return;
  const auto type = math_mode(precision) == MathMode::fp16 ? at::kHalf : at::kBFloat16;
  set_autocast(device_, true, type);
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  set_autocast(device_, false, at::kBFloat16);
  at::autocast::clear_cache();
}

void allow_tf32(Precision precision) {
  at::globalContext().setAllowTF32CuDNN(math_mode(precision) == MathMode::tf32);
  at::globalContext().setAllowTF32CuBLAS(matmul_math_mode(precision) == MathMode::tf32);
}

void flush_denormals() {
  (void)at::globalContext().setFlushDenormal(true);  // the result is false if this CPU cannot do it
}

}  // namespace lockstep
