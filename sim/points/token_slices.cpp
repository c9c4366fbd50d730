// Cuts sequences into equal slices, or into slices whose lengths TeraPipe's dynamic program finds
// (`slices: 0`). The dynamic program is slice_lengths() in parallel/schedule.hpp; this file
// computes the stage times for it.
#include "points/token_slices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strategies/common/mesh_groups.hpp"

namespace lockstep {

namespace {

// The largest number of different lengths that the dynamic program tries.
constexpr std::int64_t most_units = 32;

void check_slices(const TrainingStep& step, const ParallelOptions& parallel) {
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    throw parallel_misfit(parallel, "pipeline.slices", message, hint);
  };
  if (step.tokens == 0) {
    refuse(fmt::format("model '{}' reads images, not sequences", step.model), "1");
  }
  for (const Layer& layer : step.layers) {
    if (!layer.is_attention) continue;
    if (attribute(layer, "causal") != 0) continue;
    refuse(fmt::format("{}: tokens look at later ones, which are in no earlier slice", layer.name),
           "1, or a model with causal attention");
  }
  const std::int64_t tokens = step.tokens / step.samples;
  const std::int64_t slices = parallel.pipeline.slices;
  if (slices > 0 && tokens % slices != 0) {
    refuse(fmt::format("{} slices cannot share {} tokens evenly", slices, tokens),
           fmt::format("a divisor of {}", tokens));
  }
}

// Device seconds to add a slice's gradients to the sum of earlier slices: two reads and one write.
// 0 with main gradients (has_main_gradients()), because backward always adds to main gradients.
double sum_seconds(const PricedStep& slice, const Layer& layer) {
  const Precision precision = slice.step->precision;
  if (has_main_gradients(precision)) return 0;
  double bytes = 0;
  for (const Parameter& parameter : layer.parameters) {
    bytes += 3.0 * gradient_bytes(precision) * parameter.count;
  }
  return slice.costs->stream(bytes, 1).busy;
}

// Seconds that a mean stage needs for forward and backward of one slice. The slower of device and
// host counts; two messages to a neighbouring stage are added.
double stage_seconds(const Job& job, const PricedStep& slice) {
  const TrainingStep& step = *slice.step;
  double device = 0;
  double host = 0;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const Layer& layer = step.layers[i];
    const LayerCost cost = slice.costs->layer(step, i);
    device += cost.forward.busy + cost.backward.busy + sum_seconds(slice, layer);
    host += cost.forward.host + cost.backward.host;
    for (const auto* exchanges : {&layer.forward_exchanges, &layer.backward_exchanges}) {
      for (const AxisExchange& exchange : *exchanges) {
        device += exchange_seconds(job, exchange);
        host += host_issue_seconds;
      }
    }
  }
  const CollectiveCost message = collective_cost(
      job.machine, neighbour_group(job), Collective::send_recv, sent_bytes(slice.parts->front()));
  return std::max(device, host) / job.mesh.pipeline + 2 * message.seconds();
}

// Tokens of the shortest slice. Slices are multiples of this length. A sequence has at most
// most_units times this length, and the tensor ranks can divide it if they share sequences.
std::int64_t unit_of(const TensorOptions& tensor, std::int64_t tokens) {
  const std::int64_t shared = tensor.sequence ? tensor.size : 1;
  std::int64_t units = std::min(most_units, tokens);
  while (units > 1 && tokens % (units * shared) != 0) --units;
  return tokens / units;
}

// Lengths in tokens of the best slices. The time of a slice is a linear function of the tokens
// before it, as in the paper's model (section 3.3), so two computed costs per length are enough.
std::vector<std::int64_t> best_lengths(const Job& job, std::int64_t tokens,
                                       const PriceSlice& price) {
  const std::int64_t unit = unit_of(job.parallel.tensor, tokens);
  const std::int64_t units = tokens / unit;
  std::vector<double> alone{0};
  std::vector<double> behind{0};  // additional seconds per unit of tokens before the slice
  for (std::int64_t length = 1; length <= units; ++length) {
    const std::int64_t before = std::max<std::int64_t>(1, units - length);
    const double first = stage_seconds(job, price(length * unit, 0));
    const double last = stage_seconds(job, price(length * unit, before * unit));
    alone.push_back(first);
    const double more = last - first;
    behind.push_back(more / before);
  }
  const auto seconds = [&](std::size_t length, std::size_t before) {
    return alone[length] + behind[length] * before;
  };
  std::vector<std::int64_t> lengths;
  for (const std::size_t length :
       slice_lengths(alone.size() - 1, job.mesh.pipeline, job.accumulation, seconds)) {
    const auto count = static_cast<std::int64_t>(length);
    lengths.push_back(count * unit);
  }
  return lengths;
}

}  // namespace

std::vector<PricedStep> token_slices(const Job& job, const PriceSlice& price) {
  const std::int64_t count = job.parallel.pipeline.slices;
  std::vector<PricedStep> slices;
  if (count == 1) return slices;
  if (!job.parts) return slices;
  const TrainingStep& step = *job.step;
  check_slices(step, job.parallel);
  const std::int64_t tokens = step.tokens / step.samples;
  std::vector<std::int64_t> lengths;
  if (count == 0) {
    lengths = best_lengths(job, tokens, price);
  } else {
    lengths.assign(static_cast<std::size_t>(count), tokens / count);
  }
  std::int64_t before = 0;
  for (const std::int64_t length : lengths) {
    slices.push_back(price(length, before));
    before += length;
  }
  return slices;
}

}  // namespace lockstep
