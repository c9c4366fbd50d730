// Cuts the layers of a pass at its hooks.
#include <algorithm>
#include <array>
#include <span>

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
  void hook(Hook hook, int unit) { items_.push_back({hook, unit}); }
  // Begins, and ends with finish_exchanges().
  void start(const AxisExchange& exchange) {
    items_.push_back({Hook::start_exchange, static_cast<int>(under_way_.size()), {}, &exchange});
    under_way_.push_back(&exchange);
    most_ = std::max(most_, static_cast<int>(under_way_.size()));
  }
  void finish_exchanges() {
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      items_.push_back({Hook::await_exchange, static_cast<int>(i), {}, under_way_[i]});
    }
    under_way_.clear();
  }
  std::vector<PassItem> take() { return std::move(items_); }
  int most_exchanges() const { return most_; }

 private:
  std::vector<PassItem> items_;
  std::vector<const AxisExchange*> under_way_;
  int most_ = 0;
};

constexpr std::array<AxisExchange, 0> no_exchanges{};

std::span<const AxisExchange> forward_exchanges(const LayerCost& layer) {
  return layer.layer ? std::span<const AxisExchange>(layer.layer->forward_exchanges) : no_exchanges;
}
std::span<const AxisExchange> backward_exchanges(const LayerCost& layer) {
  return layer.layer ? std::span<const AxisExchange>(layer.layer->backward_exchanges)
                     : no_exchanges;
}

bool has(std::span<const AxisExchange> exchanges, Beside beside) {
  return std::any_of(exchanges.begin(), exchanges.end(),
                     [beside](const AxisExchange& e) { return e.beside == beside; });
}

// Starts the exchanges of that kind. An exchange beside no compute ends before the next starts.
void start(PassBuilder& pass, std::span<const AxisExchange> exchanges, Beside beside) {
  for (const AxisExchange& exchange : exchanges) {
    if (exchange.beside != beside) continue;
    pass.start(exchange);
    if (beside == Beside::nothing) pass.finish_exchanges();
  }
}

void forward_layer(PassBuilder& pass, const LayerCost& layer) {
  const auto exchanges = forward_exchanges(layer);
  start(pass, exchanges, Beside::nothing);
  start(pass, exchanges, Beside::own_layer);
  pass.layer(layer.name, layer.forward);
  if (has(exchanges, Beside::own_layer)) pass.finish_exchanges();
}

bool runs_in_pieces(const AxisExchange& exchange) {
  return exchange.axis == Axis::tensor && exchange.beside == Beside::own_layer;
}

// A checkpointed layer runs forward again, its exchanges too. True: some run beside the next work.
bool repeated_exchanges(PassBuilder& pass, const LayerCost& layer) {
  if (!layer.layer || !layer.layer->checkpointed || layer.layer->keeps_output) return false;
  bool runs = false;
  for (const AxisExchange& exchange : layer.layer->forward_exchanges) {
    pass.start(exchange);
    runs = runs || runs_in_pieces(exchange);
    if (!runs_in_pieces(exchange)) pass.finish_exchanges();
  }
  return runs;
}

// Backward of all layers, in which the weights' gradients of products may wait until the exchange
// of their input's gradient has started.
class BackwardPass {
 public:
  explicit BackwardPass(const std::vector<LayerCost>& layers)
      : layers_(layers), waits_(layers.size(), false) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].layer || layers[i].weight_gradient.busy <= 0) continue;
      for (const int input : layers[i].layer->inputs) {
        if (input < 0) continue;
        const LayerCost& before = layers[static_cast<std::size_t>(input)];
        waits_[i] = waits_[i] || has(backward_exchanges(before), Beside::weight_gradient);
      }
    }
  }

  void layer(PassBuilder& pass, std::size_t index) {
    const LayerCost& layer = layers_[index];
    const auto exchanges = backward_exchanges(layer);
    const bool repeats = repeated_exchanges(pass, layer);
    start(pass, exchanges, Beside::nothing);
    start(pass, exchanges, Beside::own_layer);
    start(pass, exchanges, Beside::input_gradient);
    if (has(exchanges, Beside::weight_gradient)) {
      start(pass, exchanges, Beside::weight_gradient);
      for (const std::size_t product : late_) {
        pass.layer(layers_[product].name, layers_[product].weight_gradient);
      }
      late_.clear();
      pass.finish_exchanges();
    }
    if (waits_[index] || has(exchanges, Beside::input_gradient)) {
      pass.layer(layer.name, layer.input_gradient);
      pass.finish_exchanges();
      if (waits_[index]) {
        late_.push_back(index);
      } else {
        pass.layer(layer.name, layer.weight_gradient);
      }
      return;
    }
    pass.layer(layer.name, layer.backward);
    if (repeats || has(exchanges, Beside::own_layer)) pass.finish_exchanges();
  }

 private:
  const std::vector<LayerCost>& layers_;
  std::vector<bool> waits_;        // by layer
  std::vector<std::size_t> late_;  // products whose weights' gradients wait
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

// The gradients of inputs with the exchanges, each of which is waited for at once, then the
// gradients of weights.
void split_backward(const std::vector<LayerCost>& layers, const HookPlaces& hooks, Passes& passes) {
  PassBuilder input, weight;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    for (const int u : hooks.before_backward[layer]) input.hook(Hook::pre_backward, u);
    repeated_exchanges(input, layers[layer]);
    for (const AxisExchange& exchange : backward_exchanges(layers[layer])) {
      input.start(exchange);
      input.finish_exchanges();
    }
    input.layer(layers[layer].name, layers[layer].input_gradient);
    weight.layer(layers[layer].name, layers[layer].weight_gradient);
    for (const int u : hooks.after_backward[layer]) weight.hook(Hook::post_backward, u);
  }
  passes.exchanges = std::max(passes.exchanges, input.most_exchanges());
  passes.backward_input = input.take();
  passes.backward_weight = weight.take();
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

Passes lay_out(const std::vector<LayerCost>& layers, const HookPlaces& hooks,
               bool splits_backward) {
  PassBuilder forward, backward;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (const int u : hooks.before_forward[layer]) forward.hook(Hook::pre_forward, u);
    forward_layer(forward, layers[layer]);
    for (const int u : hooks.after_forward[layer]) forward.hook(Hook::post_forward, u);
  }
  BackwardPass pass(layers);
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    for (const int u : hooks.before_backward[layer]) backward.hook(Hook::pre_backward, u);
    pass.layer(backward, layer);
    for (const int u : hooks.after_backward[layer]) backward.hook(Hook::post_backward, u);
  }
  Passes passes;
  passes.exchanges = std::max(forward.most_exchanges(), backward.most_exchanges());
  passes.forward = forward.take();
  passes.backward = backward.take();
  if (splits_backward) split_backward(layers, hooks, passes);
  return passes;
}

}  // namespace lockstep
