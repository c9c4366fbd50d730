// Chooses the layers that activation checkpointing computes a second time in backward, and the
// results that it stores instead. The rules are: whole blocks (Chen et al. 2016), only attention
// (Korthikanti et al. 2022, section 5), or torchtitan's policy `op`, which stores the results of
// fused attention and of every second matrix product of a block.
#include <algorithm>

#include "workload/builder.hpp"

namespace lockstep {

namespace {

// Whether torchtitan's policy `op` stores the result of an exchange. The policy lists the
// functional reduce-scatter and all-to-all; the options say whether the program's tensor and expert
// exchanges use these functions.
bool keeps_exchanged(const ParallelOptions& parallel, const AxisExchange& exchange) {
  switch (exchange.axis) {
    case Axis::tensor:
      if (!parallel.tensor.dtensor) return false;
      break;
    case Axis::expert:
      if (!parallel.expert.keep_exchanged) return false;
      break;
    default:
      break;
  }
  return exchange.kind == ExchangeKind::reduce_scatter || exchange.kind == ExchangeKind::all_to_all;
}

}  // namespace

// Sets `checkpointed` of layers and, with Recompute::operators, `keeps_output`. Products are
// counted from the beginning of each block; the results of the first, third, ... are stored.
void StepBuilder::choose_checkpoints() {
  int products = 0;  // matrix products of the block so far
  const std::string* block = nullptr;
  for (Layer& layer : step_.layers) {
    layer.checkpointed =
        options_.recompute == Recompute::attention ? layer.is_attention : !layer.block.empty();
    if (options_.recompute != Recompute::operators || !layer.checkpointed) continue;
    if (block == nullptr || *block != layer.block) products = 0;
    block = &layer.block;
    // The policy lists the fused attention kernel and matrix products with weights (mm). Attention
    // with materialised scores uses batched products (bmm), which it does not list.
    const auto multiplies = [](const Kernel& kernel) { return kernel.kind == KernelKind::gemm; };
    if (layer.is_attention) {
      layer.keeps_output = options_.fused_attention;
    } else if (!layer.forward_exchanges.empty()) {
      layer.keeps_output = keeps_exchanged(options_.parallel, layer.forward_exchanges.front());
    } else if (std::any_of(layer.forward.begin(), layer.forward.end(), multiplies)) {
      layer.keeps_output = ++products % 2 == 1;
    }
  }
  if (!options_.parallel.tensor.repeat_last_exchange) leave_out_last_exchanges();
}

// torch.utils.checkpoint stops recomputing as soon as it has the last saved tensor of a block. The
// layers after that tensor's (the last exchange and the work behind it) do not run a second time,
// so they are not checkpointed.
void StepBuilder::leave_out_last_exchanges() {
  for (std::size_t end = step_.layers.size(); end > 0;) {
    const std::string block = step_.layers[end - 1].block;
    std::size_t first = end;
    std::size_t exchange = end;
    bool saves = false;
    while (first > 0 && step_.layers[first - 1].block == block) {
      const Layer& layer = step_.layers[--first];
      saves = saves || !layer.saved.empty();
      if (!saves && !layer.forward_exchanges.empty()) exchange = first;
    }
    for (std::size_t i = exchange; i < end; ++i) {
      const Layer& layer = step_.layers[i];
      // A stored result of such a layer is never read, but the policy's cache holds it until the
      // block's backward ends.
      if (layer.keeps_output) {
        step_.layers[first].saved.push_back({.name = "kept exchange",
                                             .bytes = layer.output_bytes,
                                             .storage = layer.output_storage,
                                             .produced_by = static_cast<int>(i),
                                             .held = true});
      }
      step_.layers[i].checkpointed = false;
    }
    end = first;
  }
}

bool runs_again(const Layer& layer, const Kernel& kernel) {
  return layer.checkpointed && !(layer.keeps_output && (is_product(kernel) || kernel.quantises ||
                                                        !layer.forward_exchanges.empty()));
}

}  // namespace lockstep
