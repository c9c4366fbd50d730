// Implements a ring reduce-scatter on Gloo's connections, in segments of at most 1 MiB like Gloo's
// all-reduce. Two receive buffers alternate, so that adding one segment overlaps with the transfer
// of the next.
#include "torch/ring_reduce_scatter.hpp"

#if TORCH_VERSION_MAJOR == 1

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

constexpr std::int64_t segment_bytes = 1 << 20;  // like Gloo's all-reduce
// A free prefix: Gloo's collectives use 0x01 to 0x08 (gloo/types.h).
constexpr std::uint8_t slot_prefix = 0x20;

class RingReduceScatter : public c10d::ProcessGroupGloo::AsyncWork {
 public:
  RingReduceScatter(std::shared_ptr<gloo::Context> context, const at::Tensor& output,
                    const at::Tensor& input, std::uint32_t tag)
      : AsyncWork({{output}}, "gloo:reduce_scatter", std::vector<at::Tensor>{input}),
        context_(std::move(context)),
        output_(output.view({-1})),
        input_(input.view({context_->size, -1})),
        slot_(gloo::Slot::build(slot_prefix, tag)) {}

  void run() override {
    const at::NoGradGuard no_grad;
    const int ranks = context_->size, rank = context_->rank;
    if (ranks == 1) {
      output_.copy_(input_[0]);
      return;
    }
    const std::int64_t part = output_.numel();
    if (part == 0) return;
    const std::int64_t width = output_.element_size();
    const std::int64_t segment = std::min((part + 1) / 2, segment_bytes / width);
    const std::int64_t segments = (part + segment - 1) / segment;
    const std::int64_t steps = ranks - 1;
    const auto part_at = [&](std::int64_t step) {  // the part that is received in this step
      return ((rank - 2 - step) % ranks + ranks) % ranks;
    };
    const auto length = [&](std::int64_t g) { return std::min(segment, part - g * segment); };

    // The sums of steps 0 to steps-2, which are sent on. The sums of the last step go into the
    // output.
    const at::Tensor sums =
        at::empty({std::max<std::int64_t>(steps - 1, 1), part}, output_.options());
    std::array<at::Tensor, 2> arrived{at::empty({segment}, output_.options()),
                                      at::empty({segment}, output_.options())};
    const auto from_input = buffer(input_), from_sums = buffer(sums);
    const std::array into{buffer(arrived[0]), buffer(arrived[1])};
    const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;

    const auto receive = [&](std::int64_t i) {
      if (i < steps * segments) {
        into[i % 2]->recv(left, slot_, 0, static_cast<std::size_t>(length(i % segments) * width));
      }
    };
    const auto send = [&](gloo::transport::UnboundBuffer& from, std::int64_t row, std::int64_t g) {
      from.send(right, slot_, static_cast<std::size_t>((row * part + g * segment) * width),
                static_cast<std::size_t>(length(g) * width));
    };

    receive(0);
    receive(1);
    for (std::int64_t g = 0; g < segments; ++g) send(*from_input, (rank + ranks - 1) % ranks, g);
    for (std::int64_t i = 0; i < steps * segments; ++i) {
      const std::int64_t step = i / segments, g = i % segments;
      const bool last = step == steps - 1;
      into[i % 2]->waitRecv(context_->getTimeout());
      at::Tensor sum = (last ? output_ : sums[step]).narrow(0, g * segment, length(g));
      at::add_out(sum, input_[part_at(step)].narrow(0, g * segment, length(g)),
                  arrived[i % 2].narrow(0, 0, length(g)));
      receive(i + 2);
      if (!last) send(*from_sums, step, g);
    }
    for (std::int64_t i = 0; i < segments; ++i) from_input->waitSend(context_->getTimeout());
    for (std::int64_t i = 0; i < (steps - 1) * segments; ++i) {
      from_sums->waitSend(context_->getTimeout());
    }
  }

 private:
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer(const at::Tensor& tensor) const {
    return context_->createUnboundBuffer(tensor.data_ptr(), tensor.nbytes());
  }

  std::shared_ptr<gloo::Context> context_;
  at::Tensor output_;
  at::Tensor input_;  // one row per rank
  gloo::Slot slot_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> GlooWithRing::ring_reduce_scatter(const at::Tensor& output,
                                                                 const at::Tensor& input) {
  const std::uint32_t tag = nextTag();
  auto work = c10::make_intrusive<RingReduceScatter>(getContext(tag), output, input, tag);
  enqueue(work);
  return work;
}

}  // namespace lockstep

#endif
