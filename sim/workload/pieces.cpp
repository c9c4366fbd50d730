// Overlaps tensor-parallel exchanges with the products that read or write the exchanged value,
// piece by piece: PyTorch's asynchronous tensor parallelism (torch/distributed/_symmetric_memory,
// fused_all_gather_matmul and fused_matmul_reduce_scatter) and Transformer Engine's user buffers
// (Megatron-LM: --tp-comm-overlap).
// The exchange moves from its own layer into the layer of the product. The product is divided into
// as many pieces as there are ranks, and overlaps with the pieces that travel. The layer ends when
// the product and the exchange have both ended.
#include <algorithm>
#include <vector>

#include "workload/model.hpp"

namespace lockstep {
namespace {

bool is_gemm(const Kernel& kernel) {
  return kernel.kind == KernelKind::gemm;
}

// FLOPs of the layer's forward products; 0 if the layer has no product.
double product_flops(const Layer& layer) {
  double flops = 0;
  for (const Kernel& kernel : layer.forward) flops += is_gemm(kernel) ? kernel.flops : 0;
  return flops;
}

// Divides each product of the pass into `pieces` products of fewer tokens (rows m). Every piece
// reads the whole weight, so only the traffic of tokens is divided.
void split(std::vector<Kernel>& kernels, Pass pass, std::int64_t pieces) {
  std::vector<Kernel> result;
  for (const Kernel& kernel : kernels) {
    if (!is_gemm(kernel) || kernel.pass != pass || kernel.m % pieces != 0) {
      result.push_back(kernel);
      continue;
    }
    Kernel piece = kernel;
    const auto count = static_cast<double>(pieces);
    const double weights = kernel.bytes_read * static_cast<double>(kernel.n) /
                           static_cast<double>(kernel.m + kernel.n);
    piece.m = kernel.m / pieces;
    piece.flops = kernel.flops / count;
    piece.bytes_read = (kernel.bytes_read - weights) / count + weights;
    piece.bytes_written = kernel.bytes_written / count;
    result.insert(result.end(), static_cast<std::size_t>(pieces), piece);
  }
  kernels = std::move(result);
}

// Moves the exchanges of one step.
class Pieces {
 public:
  Pieces(TrainingStep& step, std::int64_t ranks) : step_(step), ranks_(ranks) {}

  void write() {
    for (std::size_t i = 0; i < step_.layers.size(); ++i) {
      if (step_.layers[i].kind == "exchange") exchange(static_cast<int>(i));
    }
    // Inputs that backward gathers a second time also overlap with the product's input gradient.
    for (Layer& layer : step_.layers) {
      for (AxisExchange& again : layer.backward_exchanges) {
        const bool gathers = again.kind == ExchangeKind::all_gather && product_flops(layer) > 0;
        if (again.axis == Axis::tensor && gathers) again.beside = Beside::own_layer;
      }
    }
  }

 private:
  // Moves one exchange. An all-gather moves into the products that read its output, and the
  // reduce-scatter of its backward moves with it. A reduce-scatter moves into the product that
  // wrote its input, and the all-gather of its backward moves with it.
  void exchange(int index) {
    Layer& from = step_.layers[index];
    std::vector<Layer*> readers;
    for (Layer& layer : step_.layers) {
      const bool reads =
          std::find(layer.inputs.begin(), layer.inputs.end(), index) != layer.inputs.end();
      if (reads && product_flops(layer) > 0) readers.push_back(&layer);
    }
    Layer* giver = from.inputs.empty() || from.inputs.front() < 0
                       ? nullptr
                       : &step_.layers[from.inputs.front()];
    if (giver != nullptr && product_flops(*giver) <= 0) giver = nullptr;
    if (is_only(from.forward_exchanges, ExchangeKind::all_gather) && !readers.empty()) {
      move(from.forward_exchanges, readers, true);
      if (is_only(from.backward_exchanges, ExchangeKind::reduce_scatter)) {
        move(from.backward_exchanges, readers, false);
      }
    } else if (is_only(from.forward_exchanges, ExchangeKind::reduce_scatter) && giver != nullptr) {
      move(from.forward_exchanges, {giver}, true);
      if (is_only(from.backward_exchanges, ExchangeKind::all_gather)) {
        move(from.backward_exchanges, {giver}, false);
      }
    }
  }

  static bool is_only(const std::vector<AxisExchange>& list, ExchangeKind kind) {
    return list.size() == 1 && list.front().axis == Axis::tensor && list.front().kind == kind;
  }

  // Gives each product a share of the exchange that is proportional to the product's FLOPs.
  void move(std::vector<AxisExchange>& list, const std::vector<Layer*>& products, bool forward) {
    double flops = 0;
    for (const Layer* product : products) flops += product_flops(*product);
    for (Layer* product : products) {
      AxisExchange part = list.front();
      part.bytes *= product_flops(*product) / flops;
      part.beside = Beside::own_layer;
      (forward ? product->forward_exchanges : product->backward_exchanges).push_back(part);
      split(forward ? product->forward : product->backward,
            forward ? Pass::forward : Pass::data_gradient, ranks_);
    }
    list.clear();
  }

  TrainingStep& step_;
  std::int64_t ranks_;
};

}  // namespace

TrainingStep exchanged_in_pieces(TrainingStep step, std::int64_t ranks) {
  Pieces(step, ranks).write();
  return step;
}

}  // namespace lockstep
