// Implements the chunked loss: the head and the loss process one piece of the tokens after the
// other, as torchtitan's ChunkedLossWrapper does. Kernels and exchanges appear once per piece.
// Tensors have the size of one piece, which is the purpose of chunking: the logits of all tokens
// never exist at the same time.
#include <algorithm>

#include "workload/step.hpp"

namespace lockstep {
namespace {

// The kernel for one piece. Tokens are the rows (m) of a product, but the summed dimension (k) of a
// weight gradient. Every piece reads the whole weight.
Kernel of_piece(Kernel kernel, int pieces) {
  if (kernel.kind == KernelKind::gemm) {
    const double size = kernel.bytes_written / (static_cast<double>(kernel.m) * kernel.n);
    (kernel.pass == Pass::weight_gradient ? kernel.k : kernel.m) /= pieces;
    const auto m = static_cast<double>(kernel.m), n = static_cast<double>(kernel.n),
               k = static_cast<double>(kernel.k);
    kernel.bytes_read = (m * k + k * n) * size;
    kernel.bytes_written = m * n * size;
  } else {
    kernel.bytes_read /= pieces;
    kernel.bytes_written /= pieces;
  }
  kernel.flops /= pieces;
  return kernel;
}

// Replaces the list by `pieces` copies of the list for one piece.
template <class Item, class OfPiece>
void repeat(std::vector<Item>& items, int pieces, const OfPiece& of_one) {
  std::vector<Item> one;
  for (const Item& item : items) one.push_back(of_one(item));
  items.clear();
  for (int piece = 0; piece < pieces; ++piece) items.insert(items.end(), one.begin(), one.end());
}

}  // namespace

void take_in_pieces(TrainingStep& step, int first, int pieces) {
  const auto kernel = [pieces](const Kernel& whole) { return of_piece(whole, pieces); };
  const auto exchange = [pieces](AxisExchange whole) {
    whole.bytes /= pieces;
    return whole;
  };
  for (std::size_t i = static_cast<std::size_t>(first); i < step.layers.size(); ++i) {
    Layer& layer = step.layers[i];
    layer.pieces = pieces;
    repeat(layer.forward, pieces, kernel);
    repeat(layer.backward, pieces, kernel);
    repeat(layer.forward_exchanges, pieces, exchange);
    repeat(layer.backward_exchanges, pieces, exchange);
    for (const Parameter& parameter : layer.parameters) {  // gradients of the pieces are summed
      if (!parameter.trainable) continue;
      const double bytes = static_cast<double>(parameter.count) * gradient_bytes(step.precision);
      layer.backward.push_back(gradient_sum(pieces - 1, bytes));
    }
    if (!layer.is_loss) layer.output_bytes /= pieces;
    for (SavedTensor& saved : layer.saved) {
      if (saved.produced_by >= first && !saved.weight_copy) saved.bytes /= pieces;
    }
    layer.forward_workspace_bytes /= pieces;
    layer.backward_workspace_bytes /= pieces;
  }
  step.whole_layers = false;
}

}  // namespace lockstep
