#include "probes/streams.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "probes/torch_errors.hpp"
#include "torch/clock.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

// In training a gradient, a bucket or a parameter comes round once a step: by then the rest of the
// step has pushed it out of the caches. So every repetition takes the next piece of a pool that is
// several times larger than they are.
constexpr std::int64_t pool_elements = 48 << 20;

class Pool {
 public:
  Pool(std::int64_t elements, at::TensorOptions options)
      : elements_(elements),
        pieces_(std::max<std::int64_t>(1, pool_elements / elements)),
        values_(at::ones({elements * pieces_}, options)) {}

  std::int64_t pieces() const { return pieces_; }
  at::Tensor next() {
    const std::int64_t piece = used_++ % pieces_;
    return values_.slice(0, piece * elements_, (piece + 1) * elements_);
  }

 private:
  std::int64_t elements_, pieces_, used_ = 0;
  at::Tensor values_;
};

// Times `work` of what `prepare` makes for each repetition.
template <class Prepare, class Work>
std::vector<double> repeat(at::Device device, const StreamProbeOptions& options,
                           const Prepare& prepare, const Work& work) {
  Clock clock(device);
  auto warm_up = prepare();
  work(warm_up);
  std::vector<double> seconds;
  do {
    auto operands = prepare();
    clock.start();
    work(operands);
    clock.mark();
    seconds.push_back(clock.seconds().back());
  } while (!options.enough(seconds));
  return seconds;
}

}  // namespace

StreamProbeResult probe_streams(const StreamProbeOptions& options) {
  return with_plain_errors([&] {
    const at::NoGradGuard no_gradients;
    const at::Device device(options.device);
    const auto type = at::TensorOptions(at::kFloat).device(device);
    StreamProbeResult result;
    for (const std::int64_t elements : options.elements) {
      const double bytes = 4.0 * static_cast<double>(elements);
      Pool from(elements, type), to(elements, type);
      result.copies.push_back(
          {2 * bytes, repeat(
                          device, options, [&] { return std::pair(from.next(), to.next()); },
                          [](auto& pair) { pair.second.copy_(pair.first); })});
      // Every piece with its own gradient and, after a first step, its own state.
      std::vector<Optimizer> optimizers;
      for (std::int64_t i = 0; i < from.pieces(); ++i) {
        at::Tensor parameter = to.next();
        parameter.mutable_grad() = from.next();
        optimizers.emplace_back(options.optimizer, std::vector<at::Tensor>{parameter});
        optimizers.back().step();
      }
      std::size_t used = 0;
      result.updates.push_back(
          {bytes, repeat(
                      device, options, [&] { return &optimizers[used++ % optimizers.size()]; },
                      [](Optimizer* optimizer) { optimizer->step(); })});
    }
    return result;
  });
}

}  // namespace lockstep
