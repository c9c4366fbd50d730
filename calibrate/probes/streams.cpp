#include "probes/streams.hpp"

#include <ATen/ATen.h>

#include "torch/clock.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

template <class Work>
std::vector<double> repeat(at::Device device, const StreamProbeOptions& options, const Work& work) {
  Clock clock(device);
  work();
  std::vector<double> seconds;
  do {
    clock.start();
    work();
    clock.mark();
    seconds.push_back(clock.seconds().back());
  } while (!options.enough(seconds));
  return seconds;
}

}  // namespace

StreamProbeResult probe_streams(const StreamProbeOptions& options) {
  const at::NoGradGuard no_gradients;
  const at::Device device(options.device);
  const auto type = at::TensorOptions(at::kFloat).device(device);
  StreamProbeResult result;
  for (const std::int64_t elements : options.elements) {
    const double bytes = 4.0 * static_cast<double>(elements);
    at::Tensor from = at::ones({elements}, type), to = at::zeros({elements}, type);
    result.copies.push_back({2 * bytes, repeat(device, options, [&] { to.copy_(from); })});
    at::Tensor parameter = at::ones({elements}, type);
    parameter.mutable_grad() = from;
    Optimizer optimizer(options.optimizer, {parameter});
    result.updates.push_back({bytes, repeat(device, options, [&] { optimizer.step(); })});
  }
  return result;
}

}  // namespace lockstep
