#include "torch/devices.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <optional>

#include "core/errors.hpp"

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

}  // namespace lockstep
