// Orders the layers of a mixture of experts so that shared experts overlap with the exchanges of
// tokens (Megatron-LM, transformer/moe/shared_experts.py; fact H100). Layers are issued in their
// order, and an exchange with Beside::reader overlaps with all layers up to its first reader:
//
//   before:  dispatch  experts  combine  sum  shared: fc1 act fc2  join
//   after:   dispatch  fc1 act  experts  combine  fc2  sum  join
#include <algorithm>
#include <numeric>

#include "workload/builder.hpp"

namespace lockstep {
namespace {

// Indices of the layers of one mixture. The shared experts, which process every token, are between
// `sum` (the weighted sum of the routed experts) and `join`, the layer that adds both.
struct Mixture {
  std::size_t dispatch = 0, combine = 0, sum = 0, join = 0;
};

bool reads(const Layer& layer, std::size_t index) {
  return std::find(layer.inputs.begin(), layer.inputs.end(), static_cast<int>(index)) !=
         layer.inputs.end();
}

// The first layer that reads the output of layer `index`; the number of layers if none does.
std::size_t reader_of(const std::vector<Layer>& layers, std::size_t index) {
  std::size_t i = index + 1;
  while (i < layers.size() && !reads(layers[i], index)) ++i;
  return i;
}

bool exchanges_tokens(const Layer& layer) {
  return std::any_of(
      layer.forward_exchanges.begin(), layer.forward_exchanges.end(),
      [](const AxisExchange& exchange) { return exchange.beside == Beside::reader; });
}

// Finds the mixtures. Their token exchanges come in pairs: dispatch, then combine.
std::vector<Mixture> mixtures_of(const std::vector<Layer>& layers) {
  std::vector<Mixture> mixtures;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!exchanges_tokens(layers[i])) continue;
    Mixture& mixture = mixtures.emplace_back();
    mixture.dispatch = i;
    for (++i; i < layers.size() && !exchanges_tokens(layers[i]);) ++i;
    mixture.combine = i;
    mixture.sum = reader_of(layers, mixture.combine);
    mixture.join = reader_of(layers, mixture.sum);
  }
  return mixtures;
}

}  // namespace

// The last product of the shared experts and the layers after it overlap with the combination; the
// layers before it overlap with the dispatch.
std::vector<std::size_t> order_beside_tokens(const std::vector<Layer>& layers) {
  std::vector<std::size_t> order(layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const Mixture& mixture : mixtures_of(layers)) {
    std::size_t last = mixture.join;
    while (last > mixture.sum + 1 && !uses(layers[last].forward, KernelKind::gemm)) --last;
    std::vector<std::size_t> moved;
    const auto append = [&moved](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) moved.push_back(i);
    };
    append(mixture.sum + 1, last);
    append(mixture.dispatch + 1, mixture.combine + 1);
    append(last, mixture.join);
    append(mixture.combine + 1, mixture.sum + 1);
    std::copy(moved.begin(), moved.end(),
              order.begin() + static_cast<std::ptrdiff_t>(mixture.dispatch + 1));
  }
  return order;
}

}  // namespace lockstep
