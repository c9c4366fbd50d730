// Which layers activation checkpointing computes again in backward, and what of them.
#include <algorithm>

#include "workload/builder.hpp"

namespace lockstep {

namespace {

// torchtitan's policy keeps what functional reduce-scatters and all-to-alls give.
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

void StepBuilder::choose_checkpoints() {
  int products = 0;  // of the block so far
  const std::string* block = nullptr;
  for (Layer& layer : step_.layers) {
    layer.checkpointed =
        options_.recompute == Recompute::attention ? layer.is_attention : !layer.block.empty();
    if (options_.recompute != Recompute::operators || !layer.checkpointed) continue;
    if (block == nullptr || *block != layer.block) products = 0;
    block = &layer.block;
    // The policy knows the fused kernel and matrix products with weights; products of scores that
    // are written to memory are batched ones, which it does not keep.
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

// torch.utils.checkpoint stops where the last saved tensor is there again: what follows a block's last
// product on its way out of the block is not repeated.
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
      if (layer.keeps_output) {  // as long as the block's other tensors: nothing asks for it again
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
