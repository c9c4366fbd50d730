// Checks that a device and a precision can be used on this machine. LibTorch cannot be asked which
// types a CPU's kernels support, so a small convolution and a small product are tried.
#include "torch/devices.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>  // join, since fmt 11, which newer LibTorch brings along
#include <torch/cuda.h>

#include <optional>
#include <vector>

#include "core/errors.hpp"
#include "torch/precision.hpp"

namespace lockstep {

void check_device(const std::string& device) {
  std::optional<at::Device> parsed;
  try {
    parsed = at::Device(device);
  } catch (const c10::Error&) {
  }
  if (!parsed || !(parsed->is_cpu() || parsed->is_cuda())) {
    throw file_error("", "--device", fmt::format("{} is not known", in_quotes(device)),
                     "cpu, or cuda:0");
  }
  if (parsed->is_cpu()) return;
  if (!at::hasCUDA()) {
    throw file_error("", "--device",
                     fmt::format("{}: this LibTorch has no CUDA", in_quotes(device)), "cpu");
  }
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (parsed->index() >= count || count == 0) {
    throw file_error("", "--device", fmt::format("{}: {} GPUs are here", in_quotes(device), count),
                     count > 0 ? fmt::format("cpu, cuda:0 to cuda:{}", count - 1) : "cpu");
  }
}

namespace {

// Whether a CPU can compute in this precision. Releases of LibTorch differ in their CPU kernels, so
// the precision is tried. TF32 is excluded, because LibTorch would accept and ignore it.
bool cpu_computes(Precision precision) {
  if (precision == Precision::tf32) return false;
  const bool half = parameter_bytes(precision) == 2;
  const auto type = !half                               ? at::kFloat
                    : precision == Precision::pure_fp16 ? at::kHalf
                                                        : at::kBFloat16;
  try {
    const AutocastScope autocast(precision, at::kCPU);
    const at::Tensor image = at::ones({1, 1, 4, 4}, type);
    at::Tensor weight = at::ones({1, 1, 3, 3}, type).set_requires_grad(true);
    at::linear(at::conv2d(image, weight), at::ones({2, 2}, type)).sum().backward();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

bool has_master_bf16(Precision precision) {
  return precision == Precision::master_bf16 || has_main_gradients(precision);
}

}  // namespace

void check_precision(const std::string& option, Precision precision, const std::string& device) {
  if (has_master_bf16(precision)) {
    throw file_error("", option,
                     in_quotes(enum_name(precision)) +
                         " can be predicted only: the measured loop keeps no master copy",
                     "allowed: pure-bf16");
  }
  if (device != "cpu" || precision == Precision::fp32 || cpu_computes(precision)) return;
  std::vector<std::string> possible;
  for (std::size_t i = 0; i < EnumNames<Precision>::names.size(); ++i) {
    const auto other = static_cast<Precision>(i);
    if (!has_master_bf16(other) && cpu_computes(other)) {
      possible.emplace_back(EnumNames<Precision>::names[i]);
    }
  }
  throw file_error("", option,
                   fmt::format("{} is not possible on a CPU with this LibTorch",
                               in_quotes(enum_name(precision))),
                   fmt::format("allowed: {}", fmt::join(possible, ", ")));
}

}  // namespace lockstep
