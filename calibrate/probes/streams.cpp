// Measures copies and updates of flat tensors by size, on data that is in no cache. On a GPU the
// stream is kept busy beforehand, so that the host's time to issue does not count.
#include "probes/streams.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "probes/held_queue.hpp"
#include "probes/torch_errors.hpp"
#include "torch/clock.hpp"
#include "torch/optimizer.hpp"
#include "torch/precision.hpp"

namespace lockstep {

namespace {

// In training a gradient, a bucket or a parameter is used once per step, and the rest of the step
// removes it from the caches. So each repetition works on the next piece of a pool of 192 MiB,
// which is several times as large as a cache.
constexpr std::int64_t pool_elements = 48 << 20;

std::vector<at::Tensor> pool_of(std::int64_t elements, at::Device device) {
  const std::int64_t pieces = std::max<std::int64_t>(1, pool_elements / elements);
  return at::ones({pieces, elements}, at::TensorOptions(at::kFloat).device(device)).unbind();
}

// Seconds for which the queue is held, enough for the host to issue a copy or an update.
constexpr double issue_seconds = 3e-4;

// Measures work(piece) on the pieces in turn until `enough` returns true, after one repetition as
// warm-up.
template <class Work>
StreamPoint repeat(const StreamProbeOptions& options, HeldQueue& queue, std::int64_t elements,
                   std::size_t pieces, const Work& work) {
  Clock clock{at::Device(options.device)};
  StreamPoint point{elements, {}};
  std::size_t piece = 0;
  work(piece);
  do {
    piece = (piece + 1) % pieces;
    queue.hold(issue_seconds);
    clock.start();
    work(piece);
    clock.mark();
    point.seconds.push_back(clock.seconds().back());
  } while (!options.enough(point.seconds));
  return point;
}

}  // namespace

StreamProbeResult probe_streams(const StreamProbeOptions& options) {
  return with_plain_errors([&] {
    const at::NoGradGuard no_gradients;
    flush_denormals();  // like real runs
    const at::Device device(options.device);
    c10::OptionalDeviceGuard guard;
    if (!device.is_cpu()) guard.reset_device(device);
    HeldQueue queue(device);
    StreamProbeResult result;
    for (const std::int64_t elements : options.elements) {
      const std::vector<at::Tensor> from = pool_of(elements, device),
                                    to = pool_of(elements, device);
      result.copies.push_back(repeat(options, queue, elements, from.size(),
                                     [&](std::size_t piece) { to[piece].copy_(from[piece]); }));
      // The pieces of `to` become parameters with gradients. The first step creates each
      // parameter's state.
      std::vector<Optimizer> optimizers;
      for (std::size_t piece = 0; piece < to.size(); ++piece) {
        to[piece].mutable_grad() = from[piece];
        optimizers.emplace_back(options.optimizer, std::vector<at::Tensor>{to[piece]});
        optimizers.back().step();
      }
      result.updates.push_back(repeat(options, queue, elements, optimizers.size(),
                                      [&](std::size_t piece) { optimizers[piece].step(); }));
    }
    return result;
  });
}

}  // namespace lockstep
