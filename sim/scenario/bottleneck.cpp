// See bottleneck.hpp. Looks at the largest part of the step that is not the model's own arithmetic.
#include "scenario/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

// A collective keeps all its links busy for the same time; the one that moves fewest bytes in it is the
// narrow one. So: the slowest among those that are busy nearly as long as the busiest.
std::string limiting_link(const Prediction& p) {
  double longest = 0;
  for (const auto& traffic : p.traffic) longest = std::max(longest, traffic.busy);
  const LinkTraffic* slowest = nullptr;
  for (const auto& traffic : p.traffic) {
    if (traffic.busy <= 0 || traffic.busy < 0.9 * longest) continue;
    if (slowest == nullptr || traffic.bytes / traffic.busy < slowest->bytes / slowest->busy) {
      slowest = &traffic;
    }
  }
  return slowest == nullptr ? "the network" : slowest->link_class;
}

}  // namespace

std::string bottleneck_sentence(const Prediction& p, const Point& point) {
  const StepSplit& s = p.split;
  const double step = s.data_loading + s.forward + s.backward + s.optimizer + s.copies +
                      s.exposed_communication + s.host_bound + s.waiting;
  if (step <= 0) return "nothing to do";
  if (p.out_of_memory) {
    return fmt::format("does not fit: the peak is {}", p.memory.moment);
  }
  const double compute = s.forward + s.backward;
  struct Cause {
    double seconds;
    std::string text;
  };
  const auto share = [&](double seconds) { return fmt::format("{:.0f} %", 100 * seconds / step); };
  Cause causes[] = {
      {s.data_loading, fmt::format("the data loader delivers too slowly ({} of the step): more "
                                   "loader workers or cheaper preprocessing would help",
                                   share(s.data_loading))},
      {s.exposed_communication,
       fmt::format("communication over {} is exposed for {} of the step: a faster link, a larger "
                   "batch per GPU or gradient accumulation would help",
                   limiting_link(p), share(s.exposed_communication))},
      {s.host_bound,
       fmt::format("the host cannot issue work fast enough ({} of the step): a larger "
                   "batch per GPU, CUDA graphs or torch.compile would help",
                   share(s.host_bound))},
      {s.waiting, fmt::format("ranks wait for each other or for the server for {} of the step",
                              share(s.waiting))},
      {s.optimizer + s.copies,
       fmt::format("the optimizer and gradient copies take {} of the step: a fused optimizer or a "
                   "larger batch would help",
                   share(s.optimizer + s.copies))},
  };
  const Cause& worst =
      *std::max_element(std::begin(causes), std::end(causes),
                        [](const Cause& a, const Cause& b) { return a.seconds < b.seconds; });
  // Arithmetic dominates unless something else takes at least a fifth of the step.
  if (worst.seconds >= 0.2 * step || worst.seconds > compute) return worst.text;
  const double memory_share =
      compute > 0 ? std::min(1.0, point.memory_bound_seconds / compute) : 0.0;
  const char* help = memory_share > 0.5
                         ? "more memory bandwidth, channels_last or fused kernels would help"
                         : "a faster GPU or a lower precision would help";
  return fmt::format(
      "compute: {} of the step is forward and backward work, {:.0f} % of it bound by "
      "memory bandwidth; {}",
      share(compute), 100 * memory_share, help);
}

}  // namespace lockstep
