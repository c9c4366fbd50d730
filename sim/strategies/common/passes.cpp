// Cuts the layers of a pass at its hooks.
#include <algorithm>

#include "strategies/common/training_loop.hpp"

namespace lockstep {

namespace {

// Layers between two hooks are one piece of work.
class PassBuilder {
 public:
  void layer(std::string_view name, const QueuedWork& work) {
    if (items_.empty() || items_.back().hook != Hook::layers) items_.emplace_back();
    items_.back().work.append(name, work);
  }
  void hook(Hook hook, int unit) { items_.push_back({hook, unit, {}}); }
  std::vector<PassItem> take() { return std::move(items_); }

 private:
  std::vector<PassItem> items_;
};

// By layer, the units that have it at that place, in their order.
std::vector<std::vector<int>> units_at(const std::vector<HookedUnit>& units, int HookedUnit::*place,
                                       std::size_t layers) {
  std::vector<std::vector<int>> result(layers);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const int layer = units[u].*place;
    if (layer >= 0) result[static_cast<std::size_t>(layer)].push_back(static_cast<int>(u));
  }
  return result;
}

}  // namespace

HookPlaces hook_places(const std::vector<HookedUnit>& units, std::size_t layers) {
  HookPlaces places;
  places.before_forward = units_at(units, &HookedUnit::first, layers);
  places.after_forward = units_at(units, &HookedUnit::last, layers);
  for (auto& inner_first : places.after_forward) {
    std::reverse(inner_first.begin(), inner_first.end());
  }
  places.before_backward = units_at(units, &HookedUnit::last, layers);
  places.after_backward = units_at(units, &HookedUnit::completed_by, layers);
  for (auto& inner_first : places.after_backward) {
    std::reverse(inner_first.begin(), inner_first.end());
  }
  return places;
}

Passes lay_out(const std::vector<LayerCost>& layers, const HookPlaces& hooks) {
  PassBuilder forward, backward;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (const int u : hooks.before_forward[layer]) forward.hook(Hook::pre_forward, u);
    forward.layer(layers[layer].name, layers[layer].forward);
    for (const int u : hooks.after_forward[layer]) forward.hook(Hook::post_forward, u);
  }
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    for (const int u : hooks.before_backward[layer]) backward.hook(Hook::pre_backward, u);
    backward.layer(layers[layer].name, layers[layer].backward);
    for (const int u : hooks.after_backward[layer]) backward.hook(Hook::post_backward, u);
  }
  return {forward.take(), backward.take()};
}

}  // namespace lockstep
