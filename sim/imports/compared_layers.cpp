// Puts a trace's layer times beside the predictions of the device model (RooflineCosts), layer by
// layer or in sums by kind. Both lists have the order of the model's layers, because match_layers()
// assigned every traced operator to a layer of the model.
#include "imports/compared_layers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costs/roofline_costs.hpp"

namespace lockstep {
namespace {

// The kind of a layer, by which rows are summed. For convolutions it includes the kernel's size and
// grouping ("conv 3 x 3", "conv 3 x 3, depthwise"), because the error of the device model differs
// between them.
std::string kind_of(const Layer& layer) {
  const auto convolution =
      std::find_if(layer.forward.begin(), layer.forward.end(),
                   [](const Kernel& kernel) { return kernel.kind == KernelKind::convolution; });
  if (convolution == layer.forward.end()) return layer.kind;
  const ConvGeometry& g = convolution->conv;
  const char* groups = g.groups == 1 ? "" : g.groups == g.channels_in ? ", depthwise" : ", groups";
  return fmt::format("{} {} x {}{}", layer.kind, g.kernel_h, g.kernel_w, groups);
}

void add(DeviceTimes& sum, const DeviceTimes& times) {
  sum.measured += times.measured;
  sum.modelled += times.modelled;
}

// Adds a row to a sum. A layer without backward times adds nothing to backward.
void add(ComparedLayers& sum, const ComparedLayers& more) {
  sum.layers += more.layers;
  add(sum.forward, more.forward);
  if (!more.backward) return;
  if (!sum.backward) sum.backward.emplace();
  add(*sum.backward, *more.backward);
}

// Seconds of the device in the trace, forward and backward.
double measured_seconds(const ComparedLayers& layers) {
  return layers.forward.measured + (layers.backward ? layers.backward->measured : 0);
}

// One row per kind, sorted by measured time, the longest first. `kinds` has the kind of each layer.
std::vector<ComparedLayers> sums_by_kind(const std::vector<ComparedLayers>& layers,
                                         const std::vector<std::string>& kinds) {
  std::vector<ComparedLayers> sums;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto sum = std::find_if(sums.begin(), sums.end(),
                            [&](const ComparedLayers& each) { return each.name == kinds[i]; });
    if (sum == sums.end()) sum = sums.insert(sums.end(), ComparedLayers{kinds[i]});
    add(*sum, layers[i]);
  }
  std::stable_sort(sums.begin(), sums.end(), [](const ComparedLayers& a, const ComparedLayers& b) {
    return measured_seconds(a) > measured_seconds(b);
  });
  return sums;
}

}  // namespace

std::vector<ComparedLayers> compare_layers(const ProfileBatch& measured, const TrainingStep& step,
                                           const Device& device, ComparedBy by) {
  Machine machine;
  machine.device = device;
  const RooflineCosts model(machine);
  std::vector<ComparedLayers> compared;
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const ProfileLayer& layer = measured.layers.at(i);
    // `busy` is the time in which the device works, without idle gaps, just like the trace's kernel
    // times.
    const LayerCost cost = model.layer(step, i);
    ComparedLayers each{step.layers[i].name, 1, {layer.forward_seconds, cost.forward.busy}, {}};
    if (layer.backward_seconds)
      each.backward = DeviceTimes{*layer.backward_seconds, cost.backward.busy};
    if (measured_seconds(each) <= 0 && cost.forward.busy + cost.backward.busy <= 0) continue;
    compared.push_back(each);
    kinds.push_back(kind_of(step.layers[i]));
  }
  ComparedLayers all{"all"};
  for (const ComparedLayers& each : compared) add(all, each);
  if (by == ComparedBy::kinds) compared = sums_by_kind(compared, kinds);
  compared.push_back(all);
  return compared;
}

}  // namespace lockstep
