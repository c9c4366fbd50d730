// Writes the exchanges between tensor-parallel ranks as layers of their own, with the reverse
// exchange in backward. Without sequence parallelism the exchanges are the operators f and g of
// Shoeybi et al. 2019; with it, they are g and g-bar of Korthikanti et al. 2022, section 4.2.2:
//
//                          forward          backward
//   reduced                all-reduce       -
//   reduce_scattered       reduce-scatter   all-gather
//   all_gathered           all-gather       reduce-scatter (for a product), or the own slice
//   copied_to_ranks        -                all-reduce
//   scattered              own slice        all-gather
//
// The copies before and after them follow torch/distributed/_functional_collectives.py and
// Megatron-LM's tensor_parallel/mappings.py (facts H11, H12, H16 and H21).
#include <fmt/format.h>

#include "parallel/mesh.hpp"
#include "workload/checked.hpp"
#include "workload/placement.hpp"

namespace lockstep {

namespace {

constexpr const char* kind_of_exchange = "exchange";

// The module of a layer: "layers.0.mlp" for "layers.0.mlp.up_proj". A name without a dot is
// returned unchanged.
std::string module_of(const std::string& layer) {
  const std::size_t dot = layer.rfind('.');
  return dot == std::string::npos ? layer : layer.substr(0, dot);
}

// One exchange layer under construction, with the helpers that all exchanges use.
struct Exchanging {
  const OpCall& reader;
  const Value& value;
  LayerWriter layer;
  const TensorOptions& tensor;

  Exchanging(const OpCall& wanted_by, const Value& from, const std::string& name,
             const std::string& block)
      : reader(wanted_by),
        value(from),
        layer(wanted_by.step, wanted_by.step.unused_name(name), kind_of_exchange, block, {from}),
        tensor(wanted_by.step.options().parallel.tensor) {}

  AxisExchange of(ExchangeKind kind, double bytes) const {
    AxisExchange exchange;
    exchange.axis = Axis::tensor;
    exchange.kind = kind;
    exchange.bytes = bytes;
    return exchange;
  }
  // A backward exchange of an input gradient, which may overlap with the weight gradients of the
  // products.
  AxisExchange beside_weights(ExchangeKind kind, double bytes) const {
    AxisExchange exchange = of(kind, bytes);
    if (tensor.overlap == TensorOverlap::backward) exchange.beside = Beside::weight_gradient;
    return exchange;
  }
  void copy(Pass pass, double bytes) {
    if (pass == Pass::forward) {
      layer.forward(KernelKind::copy, bytes, bytes);
    } else if (layer.backward_needed()) {
      layer.backward(KernelKind::copy, bytes, bytes);
    }
  }
  // With several samples, a rank's buffer holds its tokens of sample 0, then its tokens of sample
  // 1, and so on. A collective along tokens must therefore reorder the data by a copy, after a
  // gather and before a scatter. Megatron-LM stores tokens before samples and needs no such copy.
  bool joins_samples() const { return tensor.copies && reader.step.options().samples > 1; }
};

// Number of tokens in one rank's share of the sequence. Throws ConfigError if the ranks do not
// divide the sequence.
std::int64_t tokens_of_rank(const OpCall& reader, const Value& value) {
  const ParallelOptions& parallel = reader.step.options().parallel;
  const std::int64_t tokens = value.shape.front();
  if (tokens % parallel.tensor.size != 0) {
    throw parallel_misfit(parallel, "tensor.sequence",
                          fmt::format("{}: {} GPUs cannot share {} tokens evenly", reader.name,
                                      parallel.tensor.size, tokens),
                          "false, or a sequence that they divide");
  }
  return tokens / parallel.tensor.size;
}

std::vector<std::int64_t> with_tokens(const Value& value, std::int64_t tokens) {
  std::vector<std::int64_t> shape = value.shape;
  shape.front() = tokens;
  return shape;
}

// The value in another placement. It is a new tensor, so a product saves this tensor and not an
// earlier one.
Value placed(Value value, Placement placement) {
  value.placement = placement;
  value.kept_storage = -1;
  return value;
}

// Sums the ranks' summands on every rank. The gradient of a sum is also the gradient of each
// summand, so backward sends nothing.
Value reduced(const OpCall& reader, const Value& value) {
  const Layer& from = reader.step.layer(value.layer);
  Exchanging exchange(reader, value, from.name + ".all_reduce", from.block);
  const double bytes = reader.step.bytes(value);
  exchange.layer.forward_exchange(exchange.of(ExchangeKind::all_reduce, bytes));
  exchange.layer.flow(GradientFlow::passes);
  if (exchange.tensor.copies) exchange.copy(Pass::forward, bytes);
  const Value y = exchange.tensor.copies ? exchange.layer.output(value.shape, value.element_bytes)
                                         : exchange.layer.view_of(value, value.shape);
  return exchange.layer.done(placed(y, {}));
}

// Sums the ranks' summands, and every rank gets the sums of its tokens.
Value reduce_scattered(const OpCall& reader, const Value& value) {
  const Layer& from = reader.step.layer(value.layer);
  Exchanging exchange(reader, value, from.name + ".reduce_scatter", from.block);
  const double bytes = reader.step.bytes(value);
  exchange.layer.forward_exchange(exchange.of(ExchangeKind::reduce_scatter, bytes));
  exchange.layer.backward_exchange(exchange.of(ExchangeKind::all_gather, bytes));
  if (exchange.tensor.copies) exchange.copy(Pass::forward, bytes);
  if (exchange.joins_samples()) exchange.copy(Pass::backward, bytes);
  exchange.layer.workspace(exchange.tensor.copies ? bytes : 0,
                           exchange.joins_samples() ? bytes : 0);
  const Value y =
      exchange.layer.output(with_tokens(value, tokens_of_rank(reader, value)), value.element_bytes);
  return exchange.layer.done(placed(y, {Placement::Features::whole, true}));
}

// Every rank has the whole value and takes its tokens: no message in forward, an all-gather of
// gradients in backward.
Value scattered(const OpCall& reader, const Value& value, std::int64_t ranks) {
  const Layer& from = reader.step.layer(value.layer);
  Exchanging exchange(reader, value, from.name + ".scatter", from.block);
  const double bytes = reader.step.bytes(value);
  exchange.copy(Pass::forward, bytes / static_cast<double>(ranks));
  exchange.layer.backward_exchange(exchange.of(ExchangeKind::all_gather, bytes));
  if (exchange.joins_samples()) exchange.copy(Pass::backward, bytes);
  exchange.layer.workspace(0, exchange.joins_samples() ? bytes : 0);
  const Value y =
      exchange.layer.output(with_tokens(value, tokens_of_rank(reader, value)), value.element_bytes);
  return exchange.layer.done(placed(y, {Placement::Features::whole, true}));
}

// Gives every rank the tokens of all ranks. `product`: the reader is a product with split outputs,
// so its gradient on a rank is a summand, and backward reduce-scatters it. Otherwise all ranks
// compute the same gradient, and each takes its slice. If the gathered input is not stored,
// backward of the reader gathers it a second time.
Value all_gathered(const OpCall& reader, const Value& value, std::int64_t ranks, bool product) {
  Exchanging exchange(reader, value, module_of(reader.name) + ".all_gather", reader.block);
  const Value y = exchange.layer.output(with_tokens(value, checked_multiply(value.shape[0], ranks)),
                                        value.element_bytes);
  const double bytes = reader.step.bytes(y);
  exchange.layer.forward_exchange(exchange.of(ExchangeKind::all_gather, bytes));
  const bool joins = exchange.joins_samples();
  if (joins) exchange.copy(Pass::forward, bytes);
  if (product) {
    exchange.layer.backward_exchange(exchange.beside_weights(ExchangeKind::reduce_scatter, bytes));
    if (exchange.tensor.copies) exchange.copy(Pass::backward, bytes);
    exchange.layer.workspace(joins ? bytes : 0, exchange.tensor.copies ? bytes : 0);
  } else {
    exchange.copy(Pass::backward, bytes / static_cast<double>(ranks));
    exchange.layer.workspace(joins ? bytes : 0, 0);
  }
  Value result = placed(y, {});
  if (product && !exchange.tensor.keep_gathered) {
    result.kept_storage = value.storage;
    AxisExchange again = exchange.of(ExchangeKind::all_gather, bytes);
    if (exchange.tensor.overlap == TensorOverlap::backward) again.beside = Beside::input_gradient;
    reader.step.repeat_in_backward(exchange.layer.index(), again);
  }
  return exchange.layer.done(result);
}

// Gives every rank the features of all ranks. The all-gather concatenates along the first
// dimension, so a copy then moves the parts to the last one.
Value features_gathered(const OpCall& reader, const Value& value, std::int64_t ranks) {
  const Layer& from = reader.step.layer(value.layer);
  Exchanging exchange(reader, value, from.name + ".all_gather", from.block);
  std::vector<std::int64_t> shape = value.shape;
  shape.back() = checked_multiply(shape.back(), ranks);
  const Value y = exchange.layer.output(shape, value.element_bytes);
  const double bytes = reader.step.bytes(y);
  exchange.layer.forward_exchange(exchange.of(ExchangeKind::all_gather, bytes));
  exchange.copy(Pass::forward, bytes);
  exchange.copy(Pass::backward, bytes / static_cast<double>(ranks));
  exchange.layer.workspace(bytes, 0);
  return exchange.layer.done(placed(y, {}));
}

// Megatron-LM's f: the identity in forward, an all-reduce of the input gradients in backward.
// `shared`: one exchange serves all products of a module that read the value.
Value copied_to_ranks(const OpCall& reader, const Value& value, bool shared) {
  const std::string& name = reader.name;
  Exchanging exchange(reader, value, (shared ? module_of(name) : name) + ".all_reduce",
                      reader.block);
  const double bytes = reader.step.bytes(value);
  exchange.layer.backward_exchange(exchange.beside_weights(ExchangeKind::all_reduce, bytes));
  if (exchange.tensor.copies) {
    exchange.copy(Pass::backward, bytes);
  } else {
    exchange.layer.flow(GradientFlow::passes);
  }
  return exchange.layer.done(placed(exchange.layer.view_of(value, value.shape), {}));
}

// The result of exchange `make`, or of an earlier exchange of the same value and kind within
// `scope`, which is the whole step (""), a block, or one reader.
template <class Make>
Value once(const OpCall& reader, const Value& value, const std::string& scope, const char* kind,
           const Make& make) {
  const std::string key = fmt::format("{}/{}/{}", value.layer, kind, scope);
  auto& known = reader.step.exchanged();
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const Value result = make();
  known.emplace(key, result);
  return result;
}

Value summed(const OpCall& reader, const Value& value) {
  return once(reader, value, "", "reduced", [&] { return reduced(reader, value); });
}

}  // namespace

Value gathered(const OpCall& reader, const Value& value) {
  const std::int64_t ranks = reader.step.options().parallel.tensor.size;
  if (value.placement.features == Placement::Features::partial) return summed(reader, value);
  if (value.placement.features == Placement::Features::split) {
    return once(reader, value, "", "features",
                [&] { return features_gathered(reader, value, ranks); });
  }
  if (!value.placement.tokens_split) return value;
  return once(reader, value, reader.block, "gathered",
              [&] { return all_gathered(reader, value, ranks, false); });
}

// With split tokens one all-gather per block serves all its products. Otherwise every rank already
// has the whole value, and only gradients need an exchange: one per product, or, with Megatron-LM's
// fused projections, one per block. An input without gradient needs none.
Value gathered_for_product(const OpCall& reader, const Value& value) {
  const TensorOptions& tensor = reader.step.options().parallel.tensor;
  if (value.placement.tokens_split) {
    return once(reader, value, reader.block, "for product",
                [&] { return all_gathered(reader, value, tensor.size, true); });
  }
  const Value whole = gathered(reader, value);
  if (!whole.requires_grad) return whole;
  const std::string scope = tensor.shared_exchanges ? reader.block : reader.name;
  return once(reader, whole, scope, "copied",
              [&] { return copied_to_ranks(reader, whole, tensor.shared_exchanges); });
}

Value heads_of_rank(const OpCall& reader, const Value& value, std::int64_t features) {
  return once(reader, value, "", "heads", [&] {
    const Layer& from = reader.step.layer(value.layer);
    Exchanging exchange(reader, value, from.name + ".all_gather", from.block);
    const double bytes = reader.step.bytes(value) * static_cast<double>(exchange.tensor.size);
    exchange.layer.forward_exchange(exchange.of(ExchangeKind::all_gather, bytes));
    exchange.layer.backward_exchange(exchange.of(ExchangeKind::reduce_scatter, bytes));
    exchange.copy(Pass::forward, bytes);  // parts are joined along the last dimension
    exchange.copy(Pass::backward, bytes);
    exchange.layer.workspace(bytes, bytes);
    std::vector<std::int64_t> shape = value.shape;
    shape.back() = features;
    return exchange.layer.done(
        placed(exchange.layer.output(shape, value.element_bytes), value.placement));
  });
}

Value between_products(const OpCall& reader, const Value& value) {
  const TensorOptions& tensor = reader.step.options().parallel.tensor;
  if (!tensor.sequence || !value.is_sequence()) return gathered(reader, value);
  if (value.placement.tokens_split) return value;
  if (value.placement.features == Placement::Features::partial) {
    return once(reader, value, "", "scattered sum",
                [&] { return reduce_scattered(reader, value); });
  }
  const Value whole = gathered(reader, value);
  return once(reader, whole, "", "scattered",
              [&] { return scattered(reader, whole, tensor.size); });
}

}  // namespace lockstep
