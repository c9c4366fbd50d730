// Cuts sequences into equal slices, or into those that the dynamic programme finds.
#include "points/token_slices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/token_slices.hpp"
#include "strategies/common/mesh_groups.hpp"

namespace lockstep {

namespace {

// Lengths that the dynamic programme tells apart.
constexpr std::int64_t most_units = 32;

void check_slices(const TrainingStep& step, const ParallelOptions& parallel) {
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    throw parallel_misfit(parallel, "pipeline.slices", message, hint);
  };
  if (step.tokens == 0) {
    refuse(fmt::format("model '{}' reads images, not sequences", step.model), "1");
  }
  for (const Layer& layer : step.layers) {
    if (!layer.is_attention || attribute(layer, "causal") != 0) continue;
    refuse(fmt::format("{}: tokens look at later ones, which are in no earlier slice", layer.name),
           "1, or a model with causal attention");
  }
  const std::int64_t tokens = step.tokens / step.samples, slices = parallel.pipeline.slices;
  if (slices > 0 && tokens % slices != 0) {
    refuse(fmt::format("{} slices cannot share {} tokens evenly", slices, tokens),
           fmt::format("a divisor of {}", tokens));
  }
}

// Of the mean stage for both passes over a slice: its kernels, or the host that issues them; what backward adds
// to gradients that are there; exchanges and messages.
double stage_seconds(const Job& job, const PricedStep& slice) {
  double device = 0, host = 0;
  for (std::size_t i = 0; i < slice.step->layers.size(); ++i) {
    const Layer& layer = slice.step->layers[i];
    const LayerCost cost = slice.costs->layer(*slice.step, i);
    device += cost.forward.busy + cost.backward.busy;
    host += cost.forward.host + cost.backward.host;
    for (const auto* exchanges : {&layer.forward_exchanges, &layer.backward_exchanges}) {
      for (const AxisExchange& exchange : *exchanges) device += exchange_seconds(job, exchange);
      host += host_issue_seconds * static_cast<double>(exchanges->size());
    }
    if (has_main_gradients(slice.step->precision)) continue;
    const int bytes = gradient_bytes(slice.step->precision);
    for (const Parameter& parameter : layer.parameters) {
      device += job.costs->stream(3.0 * bytes * static_cast<double>(parameter.count), 1).busy;
    }
  }
  const double message = collective_cost(job.machine, neighbour_group(job), Collective::send_recv,
                                         sent_bytes(slice.parts->front()))
                             .seconds();
  return std::max(device, host) / job.mesh.pipeline + 2 * message;
}

// The time of a slice is a line of the tokens before it, as in the paper's own model (section 3.3).
std::vector<std::int64_t> best_lengths(const Job& job, std::int64_t tokens,
                                       const PriceSlice& price) {
  const TensorOptions& tensor = job.parallel.tensor;
  const std::int64_t shared = tensor.sequence ? tensor.size : 1;
  std::int64_t units = std::min(most_units, tokens);
  while (units > 1 && (tokens % units != 0 || tokens / units % shared != 0)) --units;
  const std::int64_t unit = tokens / units;
  std::vector<double> first{0}, slope{0};
  for (std::int64_t length = 1; length <= units; ++length) {
    const std::int64_t most_before = units - length;
    first.push_back(stage_seconds(job, price(length * unit, 0)));
    slope.push_back(0);
    if (most_before == 0) continue;
    const double last = stage_seconds(job, price(length * unit, most_before * unit));
    slope.back() = (last - first.back()) / static_cast<double>(most_before);
  }
  std::vector<std::int64_t> lengths;
  for (const int length : slice_lengths(static_cast<int>(units), job.mesh.pipeline,
                                        job.accumulation, [&](int of, int before) {
                                          const auto at = static_cast<std::size_t>(of);
                                          return first[at] + slope[at] * before;
                                        })) {
    lengths.push_back(length * unit);
  }
  return lengths;
}

}  // namespace

std::vector<PricedStep> token_slices(const Job& job, const PriceSlice& price) {
  const std::int64_t count = job.parallel.pipeline.slices;
  std::vector<PricedStep> slices;
  if (count == 1 || !job.parts) return slices;
  check_slices(*job.step, job.parallel);
  const std::int64_t tokens = job.step->tokens / job.step->samples;
  const std::vector<std::int64_t> lengths =
      count == 0 ? best_lengths(job, tokens, price)
                 : std::vector<std::int64_t>(static_cast<std::size_t>(count), tokens / count);
  std::int64_t before = 0;
  for (const std::int64_t length : lengths) {
    slices.push_back(price(length, before));
    before += length;
  }
  return slices;
}

}  // namespace lockstep
