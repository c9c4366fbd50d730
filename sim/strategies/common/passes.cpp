// Lays out passes: the layers in order, cut at hooks and at exchanges. Each exchange starts before
// the work that may run beside it and is awaited after it (Beside, workload/step.hpp). A pass is
// made once; the training loop plays it in every micro-batch.
#include <algorithm>
#include <array>
#include <span>

#include "strategies/common/training_loop.hpp"

namespace lockstep {

namespace {

// Appends items to a pass. All layers between two hooks become one piece of work.
class PassBuilder {
 public:
  void layer(std::string_view name, const QueuedWork& work) {
    if (items_.empty() || items_.back().hook != Hook::layers) items_.emplace_back();
    items_.back().work.append(name, work);
  }
  void hook(Hook hook, int unit) { items_.push_back({hook, unit}); }
  // Starts the exchange. The next finish_exchanges() with the same `until` ends it. `until` is the
  // index of a layer, or -1 for the layer that is being laid out. Exchanges under way have slots,
  // which are reused.
  void start(const AxisExchange& exchange, int until = -1) {
    const auto place = std::find_if(under_way_.begin(), under_way_.end(),
                                    [](const UnderWay& slot) { return !slot.exchange; });
    const auto slot = static_cast<int>(place - under_way_.begin());
    if (place == under_way_.end()) under_way_.emplace_back();
    items_.push_back({Hook::start_exchange, slot, {}, &exchange});
    under_way_[static_cast<std::size_t>(slot)] = {&exchange, until};
    most_ = std::max(most_, static_cast<int>(under_way_.size()));
  }
  // Waits for all exchanges under way that have this `until`.
  void finish_exchanges(int until = -1) {
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      if (!under_way_[i].exchange || under_way_[i].until != until) continue;
      items_.push_back({Hook::await_exchange, static_cast<int>(i), {}, under_way_[i].exchange});
      under_way_[i] = {};
    }
  }
  std::vector<PassItem> take() { return std::move(items_); }
  int most_exchanges() const { return most_; }

 private:
  std::vector<PassItem> items_;
  struct UnderWay {
    const AxisExchange* exchange = nullptr;
    int until = -1;
  };
  std::vector<UnderWay> under_way_;
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

// Starts the exchanges that run beside `beside`. If an exchange runs beside nothing, it ends before
// the next one starts.
void start(PassBuilder& pass, std::span<const AxisExchange> exchanges, Beside beside,
           int until = -1) {
  for (const AxisExchange& exchange : exchanges) {
    if (exchange.beside != beside) continue;
    pass.start(exchange, until);
    if (beside == Beside::nothing) pass.finish_exchanges();
  }
}

// For each layer: the layers whose output it is the first to read, if their exchanges run until
// then (Beside::reader).
std::vector<std::vector<int>> read_first_by(const std::vector<LayerCost>& layers) {
  std::vector<std::vector<int>> result(layers.size());
  std::vector<bool> read(layers.size(), false);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].layer) continue;
    for (const int input : layers[i].layer->inputs) {
      if (input < 0 || read[static_cast<std::size_t>(input)]) continue;
      read[static_cast<std::size_t>(input)] = true;
      const LayerCost& source = layers[static_cast<std::size_t>(input)];
      if (has(forward_exchanges(source), Beside::reader)) result[i].push_back(input);
    }
  }
  return result;
}

// The forward of a layer: waits for the exchanges whose result the layer reads, starts the layer's
// own exchanges, and computes. `read` are the layers whose exchanges end here.
void forward_layer(PassBuilder& pass, const std::vector<LayerCost>& layers, std::size_t index,
                   const std::vector<int>& read) {
  const LayerCost& layer = layers[index];
  const auto exchanges = forward_exchanges(layer);
  for (const int source : read) pass.finish_exchanges(source);
  start(pass, exchanges, Beside::nothing);
  start(pass, exchanges, Beside::own_layer);
  start(pass, exchanges, Beside::reader, static_cast<int>(index));
  pass.layer(layer.name, layer.forward);
  if (has(exchanges, Beside::own_layer)) pass.finish_exchanges();
}

// Whether it is a tensor-parallel exchange that runs in pieces beside its layer's matrix product.
bool runs_in_pieces(const AxisExchange& exchange) {
  return exchange.axis == Axis::tensor && exchange.beside == Beside::own_layer;
}

// A checkpointed layer runs its forward a second time in backward, with its exchanges. Returns
// whether any exchange runs beside the work that follows; then the caller must finish the
// exchanges.
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

// The backward of all layers. The gradient of a matrix product's weights may be computed late:
// beside the exchange of the gradient of the product's input (Megatron-LM).
//   product in backward   | input gradient | start exchange | weight gradient | wait for exchange |
class BackwardPass {
 public:
  explicit BackwardPass(const std::vector<LayerCost>& layers)
      : layers_(layers), read_(read_first_by(layers)), waits_(layers.size(), false) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].layer || layers[i].weight_gradient.busy <= 0) continue;
      for (const int input : layers[i].layer->inputs) {
        if (input < 0) continue;
        const LayerCost& before = layers[static_cast<std::size_t>(input)];
        waits_[i] = waits_[i] || has(backward_exchanges(before), Beside::weight_gradient);
      }
    }
  }

  // Appends the backward of layer `index`.
  // REQUIRES: it is called from the last layer to the first.
  void layer(PassBuilder& pass, std::size_t index) {
    const LayerCost& layer = layers_[index];
    const auto exchanges = backward_exchanges(layer);
    pass.finish_exchanges(static_cast<int>(index));
    const bool repeats = repeated_exchanges(pass, layer);
    start(pass, exchanges, Beside::nothing);
    start(pass, exchanges, Beside::own_layer);
    start(pass, exchanges, Beside::input_gradient);
    // This layer's exchange runs beside the weight gradients of the products that read its output.
    if (has(exchanges, Beside::weight_gradient)) {
      start(pass, exchanges, Beside::weight_gradient);
      for (const std::size_t product : late_) {
        pass.layer(layers_[product].name, layers_[product].weight_gradient);
      }
      late_.clear();
      pass.finish_exchanges();
    }
    // The two gradients of this product are computed separately; that of its weights may have to
    // wait.
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
    // The gradients of this layer's inputs are complete, so exchanges of the layers that produced
    // the inputs may begin.
    for (const int source : read_[index]) {
      const auto of_source = backward_exchanges(layers_[static_cast<std::size_t>(source)]);
      start(pass, of_source, Beside::reader, source);
    }
  }

 private:
  const std::vector<LayerCost>& layers_;
  const std::vector<std::vector<int>> read_;
  std::vector<bool> waits_;  // by layer: whether the gradient of its weights waits for an exchange
  std::vector<std::size_t> late_;  // products whose weights' gradients have not been computed yet
};

// By layer: the units whose member `place` is this layer, in the order of units.
std::vector<std::vector<int>> units_at(const std::vector<HookedUnit>& units, int HookedUnit::*place,
                                       std::size_t layers) {
  std::vector<std::vector<int>> result(layers);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const int layer = units[u].*place;
    if (layer >= 0) result[static_cast<std::size_t>(layer)].push_back(static_cast<int>(u));
  }
  return result;
}

// Backward as two passes: the gradients of inputs with all exchanges, then the gradients of
// weights. Every exchange is awaited at once.
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
  // Units are listed from the outermost to the innermost; modules end in the opposite order.
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
  const std::vector<std::vector<int>> read = read_first_by(layers);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (const int u : hooks.before_forward[layer]) forward.hook(Hook::pre_forward, u);
    forward_layer(forward, layers, layer, read[layer]);
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
