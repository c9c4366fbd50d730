// Rules of embeddings, of the class token of vision transformers, and of the cross-entropy loss.
// Kernels and saved tensors follow the operators of eager PyTorch 2.15. The loss has four
// implementations: eager, upcast to fp32, fused, and split over the vocabulary of tensor ranks.
#include <fmt/format.h>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// Writes the gradient of a gather (embedding_dense_backward): the dense gradient of `table_bytes`
// bytes is filled with zeros, `ids` ids are sorted, and the rows of equal ids are summed.
void embedding_gradient(LayerWriter& layer, double table_bytes, double rows_bytes, double ids) {
  layer.backward(KernelKind::copy, 0, table_bytes, 0, Pass::weight_gradient).operators = 0;
  Kernel& kernel = layer.backward(KernelKind::embedding, 2 * rows_bytes + 32 * ids, rows_bytes, 0,
                                  Pass::weight_gradient);
  kernel.launches = 5;  // sort (about three), segment starts, sum and scatter
}

// Looks up one row per token id. On tensor ranks that divide the vocabulary, ids of other ranks are
// masked, and the output is a summand.
Value embedding(const OpCall& call) {
  const Value& ids = call.input();
  if (!ids.tokens) throw ModelError("embedding needs token ids", "use `from: input`");
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const std::int64_t features = call.integer("features");
  const std::int64_t rows = call.integer("rows");
  layer.parameter("weight", {rows, features});
  if (step.inputs_require_gradients()) layer.starts_gradients();
  const Value y = layer.output({ids.shape[0], features}, step.weight_bytes());
  const auto count = static_cast<double>(step.elements(ids));
  const bool masked = call.cut == TensorCut::vocabulary;
  if (masked) {  // ids of other ranks: two comparisons and their union, shifted ids, zeros for them
    Kernel& ids_kernels = layer.forward(KernelKind::elementwise, 34 * count, 19 * count);
    ids_kernels.launches = ids_kernels.operators = 5;
  }
  layer.forward(KernelKind::embedding, 8 * count + step.bytes(y), step.bytes(y));
  if (masked) {
    layer.forward(KernelKind::elementwise, count, step.bytes(y));
    layer.backward(KernelKind::elementwise, count + step.bytes(y), step.bytes(y));
    layer.save_new("mask", count);
    layer.save_new("ids of this rank", 8 * count);
  }
  // DTensor has no rule for the gradient of a part of the rows. Each rank computes the gradient of
  // the whole table, and takes its part when the gradient is reduced or used.
  const TensorOptions& tensor = step.options().parallel.tensor;
  const bool whole = masked && tensor.copies && tensor.dtensor;
  const std::int64_t table = whole ? checked_multiply(rows, tensor.size) : rows;
  if (table != rows) layer.whole_gradient(checked_multiply(table, features));
  embedding_gradient(layer, static_cast<double>(table) * features * step.weight_bytes(),
                     step.bytes(y), count);
  if (!masked) layer.save(ids, "ids");
  return layer.done(y);
}

// Adds a learned vector for each position. With `lookup` (GPT-2) an embedding looks the vectors up
// by position; without it (vision transformers) the whole table is added.
Value position_embedding(const OpCall& call) {
  const Value& x = call.input();
  if (!x.is_sequence()) {
    throw ModelError(fmt::format(
        "position_embedding needs a sequence (tokens x features), but gets {}", shape_text(x)));
  }
  const std::int64_t length = call.integer("length");
  const std::int64_t tokens =
      checked_multiply(x.shape[0], call.step.options().parallel.context.size);
  if (length < tokens) {
    throw ModelError(
        fmt::format("a sequence of {} tokens is longer than the {} positions", tokens, length),
        "use a shorter sequence, or more positions");
  }
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  const std::int64_t features = x.shape[1];
  const bool lookup = call.integer("lookup") != 0;
  if (lookup) {
    layer.parameter("weight", {length, features});
  } else {
    layer.parameter("", {1, length, features});
  }
  const Value y = layer.output(x.shape, std::max(x.element_bytes, step.weight_bytes()));
  const double table = static_cast<double>(x.shape[0]) * features * step.weight_bytes();
  const auto count = static_cast<double>(step.elements(x));
  const auto positions = static_cast<double>(x.shape[0]);
  if (lookup) {
    layer.forward(KernelKind::elementwise, 0, 8 * positions);  // arange
    layer.forward(KernelKind::embedding, 8 * positions + table, table);
  }
  layer.forward(KernelKind::elementwise, step.bytes(x) + table, step.bytes(y), count);
  layer.backward(KernelKind::elementwise, step.bytes(y), table, count,  // sum over the samples
                 Pass::weight_gradient);
  if (lookup) {
    embedding_gradient(layer, static_cast<double>(length) * features * step.weight_bytes(), table,
                       positions);
    layer.save_new("positions", 8 * positions);
  }
  layer.flow(GradientFlow::passes);
  if (x.requires_grad && x.element_bytes != y.element_bytes) {
    layer.late_backward(KernelKind::elementwise, step.bytes(y), step.bytes(x));
  }
  return layer.done(y);
}

// Puts one learned token before the others, by an expand and a concatenation.
Value class_token(const OpCall& call) {
  const Value& x = call.input();
  if (!x.is_sequence()) throw ModelError("class_token needs a sequence (tokens x features)");
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  layer.parameter("", {1, 1, x.shape[1]});
  const Value y = layer.output({checked_add(x.shape[0], 1), x.shape[1]},
                               std::max(x.element_bytes, step.weight_bytes()));
  layer.views(1, 1);
  layer.flow(GradientFlow::slices);
  layer.forward(KernelKind::copy, step.bytes(x), step.bytes(y));
  const double token = step.bytes(y) / static_cast<double>(y.shape[0]);
  layer.backward(KernelKind::elementwise, token, 4.0 * x.shape[1], 0, Pass::weight_gradient);
  if (x.requires_grad && x.element_bytes != y.element_bytes) {
    layer.late_backward(KernelKind::elementwise, step.bytes(y), step.bytes(x));
  }
  return layer.done(y);
}

// Exchanges of a loss whose logits are split over the vocabulary: three all-reduces of one fp32
// number per row give the maximum, the sum of exponentials and the target's logit over all ranks
// (Megatron-LM, tensor_parallel/cross_entropy.py; PyTorch's loss_parallel).
void exchange_rows(const OpCall& call, LayerWriter& layer) {
  if (call.input().placement.features != Placement::Features::split) return;
  AxisExchange exchange;
  exchange.kind = ExchangeKind::all_reduce;
  exchange.bytes = 4.0 * static_cast<double>(call.step.rows(call.input()));
  for (int i = 0; i < 3; ++i) layer.forward_exchange(exchange);
}

// Selects the features of the first token, by a view. Backward writes the gradient of the whole
// sequence, which is zero for all other tokens.
Value select_token(const OpCall& call) {
  const Value& x = call.input();
  if (!x.is_sequence()) throw ModelError("select_token needs a sequence (tokens x features)");
  LayerWriter layer = call.layer();
  layer.views(1, 0);
  const Value y = layer.view_of(x, {x.shape[1]});
  layer.backward(KernelKind::copy, call.step.bytes(y), call.step.bytes(x)).launches = 2;
  return layer.done(y);
}

// Begins a chunked loss: head and loss process the tokens in pieces. No layer between the two mixes
// tokens, so the pieces are independent of each other.
void take_in_pieces(const OpCall& call) {
  const std::int64_t pieces = call.integer("pieces");
  if (pieces == 1) return;
  const Value& logits = call.input();
  if (!logits.is_sequence() || logits.shape.front() % pieces != 0) {
    throw ModelError(fmt::format("{} pieces cannot share {} evenly", pieces,
                                 logits.is_sequence() ? fmt::format("{} tokens", logits.shape[0])
                                                      : shape_text(logits)),
                     "pieces: a number that divides the tokens of a GPU");
  }
  call.step.take_in_pieces(logits.layer, pieces);
}

// Log-softmax of the logits and the mean negative log likelihood; the result is a single number.
Value cross_entropy(const OpCall& call) {
  require_features(call);
  StepBuilder& step = call.step;
  take_in_pieces(call);
  LayerWriter layer = call.layer();
  exchange_rows(call, layer);
  if (call.integer("fused") != 0) {
    // One kernel in forward and one in backward. They work on the logits in the logits' own
    // precision, and save them and a log-sum-exp per row (the fused losses of flash-attention and
    // Apex).
    const Value& logits = call.input();
    const double own = step.bytes(logits);
    const auto elements = static_cast<double>(step.elements(logits));
    const double per_row = 4.0 * static_cast<double>(step.rows(logits));
    layer.forward(KernelKind::softmax, own, 2 * per_row, 5 * elements);
    layer.forward(KernelKind::softmax, per_row, 4, per_row / 4);  // mean of the rows' losses
    if (layer.backward_needed()) {
      layer.backward(KernelKind::softmax, own + per_row, own, 4 * elements);
    }
    layer.save(logits, "logits");
    layer.save_new("logsumexp", per_row);
    return layer.done(layer.output({}, 4));
  }
  // `upcast`: the logits are cast to fp32 first, as in Hugging Face's losses (logits.float()).
  // Otherwise log_softmax works in the type of the logits, and autocast casts its result to fp32
  // for the likelihood (PyTorch 2.15, measured by calibrate/oracle/gpu).
  const bool half = call.input().element_bytes == 2;
  const bool upcast = half && call.integer("upcast") != 0;
  if (upcast) layer.attribute("upcast", 1);
  const Value x = upcast ? layer.full_precision(call.input()) : call.input();
  const bool casts = half && !upcast && step.autocast();
  const double bytes = step.bytes(x);
  const double likelihoods = casts ? 2 * bytes : bytes;
  const auto count = static_cast<double>(step.elements(x));
  const auto rows = static_cast<double>(step.rows(x));
  layer.forward(KernelKind::softmax, bytes, bytes, 5 * count);
  if (casts) layer.forward(KernelKind::elementwise, bytes, likelihoods);
  layer.forward(KernelKind::softmax, 12 * rows, 4, rows);  // negative log likelihood
  if (layer.backward_needed()) {
    Kernel& likelihood = layer.backward(KernelKind::copy, 8 * rows, likelihoods);
    likelihood.launches = 2;  // zero fill and scatter
    if (casts) layer.backward(KernelKind::elementwise, likelihoods, bytes);
    layer.backward(KernelKind::softmax, 2 * bytes, bytes, 4 * count);
  }
  layer.save_new("log_softmax", bytes);
  if (casts) layer.save_new("log_softmax_full", likelihoods);
  const bool split = call.input().placement.features == Placement::Features::split;
  const TensorOptions& tensor = step.options().parallel.tensor;
  const bool copies = tensor.copies;
  // Megatron-LM's split loss, which it also uses on a single rank, overwrites one fp32 copy of the
  // logits, first by the exponentials, then by the softmax and by the gradient
  // (tensor_parallel/cross_entropy.py).
  const bool in_place = !copies && (split || (tensor.split_loss && tensor.size == 1));
  // nanotron's first subtracts the maximum out of place (parallel/tensor_parallel/functional.py).
  if (in_place && upcast && step.options().framework == FrameworkKind::nanotron) {
    layer.workspace(bytes - step.bytes(call.input()), 0);
  }
  if (!in_place) layer.workspace(upcast ? bytes : 0, upcast ? 2 * bytes : likelihoods);
  // PyTorch's split loss holds the exponentials in addition to the shifted logits, and in backward
  // also their sum with the likelihoods' gradient (torch/distributed/tensor/parallel/loss.py).
  if (split && copies) layer.workspace(bytes, bytes);
  if (upcast || casts) layer.casts_gradient_last();
  return layer.done(layer.output({}, 4));
}

}  // namespace

std::vector<OpSpec> token_ops() {
  using T = ArgumentType;
  return {
      {"embedding",
       {{"rows", T::integer, true, 0, 1}, {"features", T::integer, true, 0, 1}},
       1,
       1,
       embedding},
      {"position_embedding",
       {{"length", T::integer, true, 0, 1}, {"lookup", T::flag, false, 1}},
       1,
       1,
       position_embedding},
      {"class_token", {}, 1, 1, class_token},
      {"select_token", {}, 1, 1, select_token},
      {"cross_entropy",
       {{"fused", T::flag, false, 0},
        {"upcast", T::flag, false, 0},
        {"pieces", T::integer, false, 1, 1, 1024}},
       1,
       1,
       cross_entropy},
  };
}

}  // namespace lockstep
