// Rules of attention over sequences that the ranks of the context axis share (facts H83 to H88).
// With `ring` and `gather`, the queries of a rank meet the keys and values of one rank after the
// other, in rounds whose results are merged (Liu et al. 2023; PyTorch 2.15,
// torch/distributed/tensor/experimental/_context_parallel; TransformerEngine's p2p). Each round is
// a layer, so that an exchange can overlap with its kernels:
//
//   forward    round 0 | next keys ->   round 1 | next keys ->   ...   last round
//   backward   last round first; gradients of keys travel with the keys, then to the keys' rank
//
// With `all-to-all`, an exchange turns a part of the tokens with all heads into all tokens with a
// part of the heads, and another one back (DeepSpeed-Ulysses).
#include <fmt/format.h>

#include <utility>

#include "parallel/mesh.hpp"
#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

AxisExchange context_exchange(ExchangeKind kind, double bytes, Beside beside) {
  AxisExchange exchange;
  exchange.axis = Axis::context;
  exchange.kind = kind;
  exchange.bytes = bytes;
  exchange.beside = beside;
  return exchange;
}

// Queries and keys of one round, in tokens of one sample and head.
struct Round {
  std::int64_t queries = 0, keys = 0;
  double share = 1;  // share of the pairs of query and key that a causal mask leaves
};

// The work of round `number`. Round 0 has the rank's own keys, and a causal mask leaves half of the
// pairs. In later rounds with zigzag balance, half of the queries (or of the keys) take part on
// every rank. Without balance, the last rank has the most work, full rounds, and determines the
// pace.
Round round_of(const ContextOptions& context, const Heads& heads, bool causal,
               std::int64_t number) {
  Round round{heads.tokens, heads.tokens, 1};
  if (!causal) return round;
  if (number == 0) {
    round.share = 0.5;
  } else if (context.balance == ContextBalance::zigzag) {
    round.queries /= 2;
  }
  return round;
}

// Writes the layers of one attention: the return of gradients, and then one layer per round.
class RoundWriter {
 public:
  RoundWriter(const OpCall& call, const Heads& heads, bool causal)
      : call_(call),
        step_(call.step),
        context_(call.step.options().parallel.context),
        heads_(heads),
        causal_(causal),
        inputs_(call.inputs) {
    const std::int64_t rows = checked_multiply(heads.samples, heads.tokens);
    queries_ = static_cast<double>(checked_multiply(rows, heads.query * heads.size));
    keys_ = 2 * static_cast<double>(checked_multiply(rows, heads.key * heads.size));
  }

  Value write() {
    send_gradients_home();
    Value merged;
    for (std::int64_t i = 0; i < context_.size; ++i) merged = round(i, merged);
    return merged;
  }

 private:
  bool is_ring() const { return context_.exchange == ContextExchange::ring; }
  double keys_bytes() const { return keys_ * step_.matmul_bytes(); }
  // Bytes of the gradients of a rank's keys and values, in the type in which they travel.
  double gradient_bytes() const {
    return keys_ * (context_.wide_gradients ? 4 : step_.matmul_bytes());
  }
  double gathered_bytes() const { return keys_bytes() * static_cast<double>(context_.size); }

  // Writes a layer without forward work. Its backward, which is the last of the attention, sends
  // the gradients of keys and values to the rank that owns them; no compute overlaps with it.
  void send_gradients_home() {
    Value& keys = inputs_[inputs_.size() > 1 ? 1 : 0];
    LayerWriter layer(step_, call_.name + ".gradients", "exchange", call_.block, {keys});
    layer.backward_exchange(
        context_exchange(ExchangeKind::shift, gradient_bytes(), Beside::nothing));
    layer.flow(GradientFlow::passes);
    keys = layer.done(layer.view_of(keys, keys.shape));
  }

  // Adds the exchanges of round `number`. ring: every round but the last sends its keys on. gather:
  // round 0 gathers all keys. In backward, every round but backward's first also sends on the
  // gradients that have been summed so far.
  void exchange(LayerWriter& layer, std::int64_t number) const {
    const std::int64_t last = context_.size - 1;
    const AxisExchange next =
        context_exchange(ExchangeKind::shift, keys_bytes(), Beside::own_layer);
    const AxisExchange all =
        context_exchange(ExchangeKind::all_gather, gathered_bytes(), Beside::own_layer);
    if (is_ring() && number < last) layer.forward_exchange(next);
    if (!is_ring() && number == 0) layer.forward_exchange(all);
    // Backward visits the layers in reverse, so backward's round 0 is the last layer.
    const std::int64_t back = last - number;
    if (back > 0) {
      layer.backward_exchange(
          context_exchange(ExchangeKind::shift, gradient_bytes(), Beside::own_layer));
    }
    if (is_ring() && back < last) layer.backward_exchange(next);
    if (!is_ring() && back == 0) layer.backward_exchange(all);
  }

  // One flash-attention kernel: two products in forward and five in backward, as in
  // ops_attention.cpp.
  Kernel& attend(LayerWriter& layer, const Round& round, bool forward) const {
    const double pairs = static_cast<double>(round.queries) * static_cast<double>(round.keys) *
                         static_cast<double>(heads_.query * heads_.samples) * round.share;
    const double part = static_cast<double>(round.queries) / static_cast<double>(heads_.tokens);
    const double size = step_.matmul_bytes();
    const double q = queries_ * part * size;
    const double lse = lse_bytes() * part;
    const double product = 2 * pairs * static_cast<double>(heads_.size);
    Kernel& kernel =
        forward ? layer.forward(KernelKind::attention, q + keys_bytes(), q + lse, 2 * product)
                : layer.backward(KernelKind::attention, 2 * q + keys_bytes() + 2 * lse,
                                 q + keys_bytes(), 5 * product);
    kernel.math = step_.matmul_math();
    kernel.m = round.queries;
    kernel.n = round.keys;
    kernel.k = heads_.size;
    kernel.batch = checked_multiply(heads_.query, heads_.samples);
    return kernel;
  }

  // Bytes of the fp32 log-sum-exps, one for each query and head.
  double lse_bytes() const {
    return 4.0 * static_cast<double>(heads_.samples * heads_.query * heads_.tokens);
  }

  // Casts the result of a round to fp32 and merges it into the result of the earlier rounds: eight
  // elementwise kernels, which compute weights from the log-sum-exps, and the weighted sum. The
  // last round casts the result back.
  void merge(LayerWriter& layer, const Round& round, std::int64_t number) const {
    const double count =
        queries_ * static_cast<double>(round.queries) / static_cast<double>(heads_.tokens);
    const double size = step_.matmul_bytes();
    layer.forward(KernelKind::elementwise, size * count, 4 * count);
    if (number > 0) {
      Kernel& kernel = layer.forward(KernelKind::elementwise, 20 * count, 12 * count, 3 * count);
      kernel.launches = kernel.operators = 8;
    }
    if (number + 1 == context_.size) {
      layer.forward(KernelKind::elementwise, 4 * queries_, size * queries_);
    }
  }

  // Backward of a layer. Layer `number` runs backward's round size - 1 - number.
  void backward(LayerWriter& layer, std::int64_t number) const {
    if (!layer.backward_needed()) return;
    const Round round = round_of(context_, heads_, causal_, context_.size - 1 - number);
    const double q =
        queries_ * static_cast<double>(round.queries) / static_cast<double>(heads_.tokens);
    const double size = step_.matmul_bytes();
    layer.backward(KernelKind::elementwise, 2 * q * size, 4 * q).operators = 0;
    attend(layer, round, false);
    layer.backward(KernelKind::elementwise, 4 * q, size * q).operators = 0;
  }

  // Writes the layer of one round, which reads query, key, value and the merged result of the
  // earlier rounds. The first round casts and splits the inputs; the last one saves the output and
  // the log-sum-exps.
  Value round(std::int64_t number, const Value& merged) {
    const bool last = number + 1 == context_.size;
    std::vector<Value> read = inputs_;
    if (number > 0) read.push_back(merged);
    LayerWriter layer(step_, fmt::format("{}.round_{}", call_.name, number), "attention",
                      call_.block, read);
    layer.attends();
    layer.attribute("heads", heads_.query);
    layer.attribute("kv_heads", heads_.key);
    layer.attribute("causal", causal_ ? 1 : 0);
    layer.attribute("fused", 1);
    exchange(layer, number);
    if (number == 0) {
      for (Value& value : inputs_) value = layer.matmul_input(value);
      layer.views(inputs_.size() == 1 ? 7 : 6, 6);  // views into heads, as on one rank
      layer.forward(KernelKind::copy, keys_bytes(), keys_bytes());  // keys and values in one buffer
    }
    const Round here = round_of(context_, heads_, causal_, number);
    attend(layer, here, true);
    merge(layer, here, number);
    backward(layer, number);
    const double buffers = is_ring() ? 2 * keys_bytes() : gathered_bytes();
    // Workspace: receive buffers; in forward also the round's result and its fp32 copy, in backward
    // the fp32 gradients.
    const double result = queries_ * (4 + step_.matmul_bytes());
    layer.workspace(buffers + result, buffers + 4 * keys_ + 4 * queries_);
    for (const Value& value : inputs_) layer.save(value, "query, key, value");
    const Value y =
        layer.output({heads_.tokens, heads_.query * heads_.size}, last ? step_.matmul_bytes() : 4);
    if (last) {
      layer.save(y, "output");
      layer.save_new("logsumexp", lse_bytes()).with_output = true;
    }
    if (last) layer.views(2, 2);
    return layer.done(y);
  }

  const OpCall& call_;
  StepBuilder& step_;
  const ContextOptions& context_;
  const Heads heads_;
  const bool causal_;
  std::vector<Value> inputs_;
  // Elements of the rank's queries, and of its keys and values together.
  double queries_ = 0, keys_ = 0;
};

// An all-to-all from a rank's tokens with all heads to all tokens with the rank's heads, or the
// reverse one. `shape` is the shape of the result.
Value turned(const OpCall& call, const std::string& name, const Value& value,
             std::vector<std::int64_t> shape) {
  LayerWriter layer(call.step, name, "exchange", call.block, {value});
  const double bytes = call.step.bytes(value);
  const AxisExchange exchange = context_exchange(ExchangeKind::all_to_all, bytes, Beside::nothing);
  layer.forward_exchange(exchange);
  layer.backward_exchange(exchange);
  layer.forward(KernelKind::copy, bytes, bytes);  // reorders the pieces of the ranks
  if (layer.backward_needed()) layer.backward(KernelKind::copy, bytes, bytes);
  layer.workspace(bytes, bytes);
  Value y = layer.output(std::move(shape), value.element_bytes);
  y.placement = value.placement;
  return layer.done(y);
}

}  // namespace

Value emit_rounds(const OpCall& call, const Heads& heads, bool causal) {
  if (heads.value != 0) {
    throw parallel_misfit(
        call.step.options().parallel, "context",
        fmt::format("{}: rounds know no heads of values with another size", call.name),
        "exchange: all-to-all");
  }
  return RoundWriter(call, heads, causal).write();
}

// DeepSpeed-Ulysses: all-to-alls before and after an attention of all tokens and 1/ranks of the
// heads.
Value emit_turned(const OpCall& call, Value (*attention)(const OpCall&)) {
  const ParallelOptions& parallel = call.step.options().parallel;
  const std::int64_t ranks = parallel.context.size;
  OpCall inner = call;
  for (std::size_t i = 0; i < call.specs->size(); ++i) {
    const std::string_view name = (*call.specs)[i].name;
    if ((name != "heads" && name != "kv_heads") || call.integers[i] == not_given) continue;
    if (call.integers[i] % ranks != 0) {
      throw parallel_misfit(
          parallel, "context",
          fmt::format("{}: {} GPUs cannot share {} heads of a tensor rank evenly", call.name, ranks,
                      call.integers[i]),
          fmt::format("a number that divides {}, or exchange: ring", call.integers[i]));
    }
    inner.integers[i] /= ranks;
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Value& value = call.inputs[i];
    inner.inputs[i] = turned(call, fmt::format("{}.all_to_all_{}", call.name, i), value,
                             {checked_multiply(value.shape[0], ranks), value.shape[1] / ranks});
  }
  const Value y = attention(inner);
  return turned(call, call.name + ".all_to_all", y,
                {y.shape[0] / ranks, checked_multiply(y.shape[1], ranks)});
}

}  // namespace lockstep
