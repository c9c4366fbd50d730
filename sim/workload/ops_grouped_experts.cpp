// Rule of a mixture of experts with grouped products: one product computes all experts of a rank,
// as in torchtitan (models/common/moe) and Megatron-LM (transformer/moe). Tokens travel over the
// ranks of the expert axis to their experts and back (facts H93 to H103):
//
//   all-to-all:  route -> dispatch (all-to-all)  -> experts -> combine (all-to-all)      -> sum
//   gather:      route -> dispatch (all-gather)  -> experts -> combine (reduce-scatter)
//
// If tensor ranks divide each expert, there are also an all-gather before `experts` and a
// reduce-scatter after it.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "parallel/mesh.hpp"
#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

AxisExchange exchange_over(Axis axis, ExchangeKind kind, double bytes) {
  AxisExchange exchange;
  exchange.axis = axis;
  exchange.kind = kind;
  exchange.bytes = bytes;
  return exchange;
}

// Writes the layers of one mixture of experts on one rank. Token counts are per sample, like
// shapes; count() and bytes() return numbers for the local batch.
class ExpertWriter {
 public:
  explicit ExpertWriter(const OpCall& call)
      : call_(call),
        step_(call.step),
        expert_(call.step.options().parallel.expert),
        tensor_(call.step.options().parallel.tensor.size),
        experts_(call.integer("count")),
        top_(call.integer("top")),
        inner_(call.integer("inner")),
        hidden_(call.input().shape[1]),
        tokens_(call.input().shape[0]) {
    if (experts_ % expert_.size != 0) {
      refuse(fmt::format("{} GPUs cannot share {} experts evenly", expert_.size, experts_),
             fmt::format("a number that divides {}", experts_));
    }
    if (expert_.size > 1 && expert_.tensor > 1 && expert_.tensor != tensor_) {
      refuse(fmt::format("{} GPUs cannot share an expert", expert_.tensor),
             fmt::format("tensor: 1, or {} as the other layers", tensor_));
    }
    shared_by_ = expert_.size > 1 && expert_.tensor != 1 ? tensor_ : 1;
    chosen_ = checked_multiply(tokens_, top_);
    arriving_ = arriving_tokens();
  }

  Value write() {
    const bool gathers = expert_.size > 1 && expert_.dispatch == ExpertDispatch::gather;
    Value routed = gathers ? routed_in_place() : permuted();
    if (expert_.size > 1) routed = gathers ? gathered(routed) : dispatched(routed);
    if (shared_by_ > 1) routed = over_tensor(routed, true);
    Value y = computed(routed, gathers);
    if (shared_by_ > 1) y = over_tensor(y, false);
    if (expert_.size > 1) y = gathers ? scattered(y) : combined(y);
    return gathers ? y : summed(y);
  }

 private:
  [[noreturn]] void refuse(const std::string& message, const std::string& hint) const {
    throw parallel_misfit(step_.options().parallel, "expert",
                          fmt::format("{}: {}", call_.name, message), hint);
  }

  // Token rows that arrive at the rank's experts. With a capacity, every expert receives a fixed
  // number of rows from each rank, filled or padded (fact H96). Without a capacity, the number is
  // the fullest rank's: its relative load times the mean.
  std::int64_t arriving_tokens() const {
    if (expert_.size == 1) return chosen_;
    const RankLoad load = rank_load(step_.options().parallel, experts_);
    step_.drops_tokens(load.dropped);
    if (expert_.capacity > 0) {
      const double mean = static_cast<double>(chosen_) / static_cast<double>(experts_);
      return checked_multiply(experts_,
                              static_cast<std::int64_t>(std::ceil(mean * expert_.capacity)));
    }
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(chosen_) * load.fullest));
  }

  double samples() const { return static_cast<double>(step_.options().samples); }
  double count(std::int64_t tokens, std::int64_t features) const {
    return samples() * static_cast<double>(tokens) * static_cast<double>(features);
  }
  double bytes(std::int64_t tokens, std::int64_t features) const {
    return count(tokens, features) * step_.matmul_bytes();
  }

  LayerWriter layer(const char* suffix, const char* kind, std::vector<Value> inputs) const {
    return call_.child(suffix, kind, std::move(inputs)).layer();
  }

  // A permutation of rows by an int64 index; backward scatters the gradients back.
  void reorder(LayerWriter& writer, std::int64_t rows, bool with_backward = true) const {
    const double moved = bytes(rows, hidden_);
    writer.forward(KernelKind::embedding, moved + 8 * count(rows, 1), moved);
    if (with_backward && writer.backward_needed()) {
      writer.backward(KernelKind::embedding, moved + 8 * count(rows, 1), moved);
    }
  }

  // The router: softmax in fp32, the top experts and their weights, a histogram of tokens per
  // expert, and the sort that gives the order of tokens.
  void route(LayerWriter& writer) const {
    const double all = count(tokens_, experts_);
    const double chosen = count(chosen_, 1);
    const double narrow = call_.inputs[1].element_bytes;
    writer.forward(KernelKind::softmax, narrow * all, 4 * all, 5 * all);
    writer.forward(KernelKind::elementwise, 4 * all, 12 * chosen);  // topk: values and positions
    Kernel& norm = writer.forward(KernelKind::elementwise, 8 * chosen, 4 * chosen);
    norm.launches = norm.operators = 2;                        // sum, quotient
    writer.forward(KernelKind::elementwise, 8 * chosen, 8.0);  // histogram
    Kernel& sort = writer.forward(KernelKind::copy, 3 * 16 * chosen, 3 * 16 * chosen);
    sort.launches = 4;
    writer.save_new("routing", 20 * chosen + 4 * all);
    if (!writer.backward_needed()) return;
    Kernel& back = writer.late_backward(KernelKind::elementwise, 16 * chosen, 8 * chosen);
    back.launches = back.operators = 3;  // backward of quotient and sum
    Kernel& scatter = writer.late_backward(KernelKind::copy, 4 * chosen, 4 * all);
    scatter.launches = 2;  // backward of topk: zeros and scatter
    writer.late_backward(KernelKind::softmax, 8 * all, narrow * all);
  }

  // Copies tokens into the order of their experts. A token appears once for each expert that was
  // chosen for it.
  Value permuted() const {
    LayerWriter writer = layer("route", "route", call_.inputs);
    const Value x = writer.matmul_input(call_.input());
    route(writer);
    reorder(writer, chosen_, false);
    if (writer.backward_needed()) {
      const double rows = bytes(chosen_, hidden_);
      writer.backward(KernelKind::copy, 0, step_.bytes(x));
      writer.backward(KernelKind::embedding, 2 * rows + 32 * count(chosen_, 1), rows).launches = 5;
    }
    return writer.done(writer.output({chosen_, hidden_}, step_.matmul_bytes()));
  }

  // Only the routing, for `gather`: tokens are not reordered, because every rank gets all tokens.
  Value routed_in_place() const {
    LayerWriter writer = layer("route", "route", call_.inputs);
    const Value x = writer.matmul_input(call_.input());
    route(writer);
    writer.flow(GradientFlow::passes);
    return writer.done(writer.view_of(x, x.shape));
  }

  // Sends tokens to the ranks of their experts. Without a capacity the ranks first exchange token
  // counts, and the host waits for the counts because the message sizes depend on them.
  Value dispatched(const Value& rows) const {
    LayerWriter writer = layer("dispatch", "exchange", {rows});
    if (expert_.capacity <= 0) {
      AxisExchange counts = exchange_over(Axis::expert, ExchangeKind::all_to_all,
                                          8.0 * static_cast<double>(experts_));
      counts.host_waits = true;
      writer.forward_exchange(counts);
    }
    exchange_tokens(writer);
    return writer.done(writer.output({arriving_, hidden_}, step_.matmul_bytes()));
  }

  // The all-to-all of token rows, forward and backward, with the bytes of the fullest rank.
  void exchange_tokens(LayerWriter& writer) const {
    AxisExchange tokens =
        exchange_over(Axis::expert, ExchangeKind::all_to_all, bytes(arriving_, hidden_));
    if (expert_.overlap == ExpertOverlap::shared) tokens.beside = Beside::reader;
    writer.forward_exchange(tokens);
    writer.backward_exchange(tokens);
  }

  // Sends the experts' outputs back to the ranks of their tokens.
  Value combined(const Value& rows) const {
    LayerWriter writer = layer("combine", "exchange", {rows});
    exchange_tokens(writer);
    return writer.done(writer.output({chosen_, hidden_}, step_.matmul_bytes()));
  }

  // All-gathers first all tokens, and then their router weights (fp32) together with the map of
  // experts (1 byte), over the expert ranks (Megatron-LM's allgather dispatcher).
  Value gathered(const Value& tokens) const {
    LayerWriter writer = layer("dispatch", "exchange", {tokens});
    const std::int64_t all = checked_multiply(tokens_, expert_.size);
    writer.forward_exchange(
        exchange_over(Axis::expert, ExchangeKind::all_gather, bytes(all, hidden_)));
    writer.forward_exchange(
        exchange_over(Axis::expert, ExchangeKind::all_gather, 5 * count(all, experts_)));
    writer.backward_exchange(
        exchange_over(Axis::expert, ExchangeKind::reduce_scatter, bytes(all, hidden_)));
    return writer.done(writer.output({all, hidden_}, step_.matmul_bytes()));
  }

  // Sums the ranks' weighted outputs of each token, and returns the sums of its own tokens to each
  // rank.
  Value scattered(const Value& sums) const {
    LayerWriter writer = layer("combine", "exchange", {sums});
    const double all = bytes(checked_multiply(tokens_, expert_.size), hidden_);
    writer.forward_exchange(exchange_over(Axis::expert, ExchangeKind::reduce_scatter, all));
    writer.backward_exchange(exchange_over(Axis::expert, ExchangeKind::all_gather, all));
    Value y = writer.output({tokens_, hidden_}, step_.matmul_bytes());
    return writer.done(y);
  }

  // Each of the ranks that divide an expert holds a part of its inner features, so every rank needs
  // the tokens of the others: an all-gather before the experts (`before`), and a reduce-scatter of
  // the summands after them.
  Value over_tensor(const Value& rows, bool before) const {
    LayerWriter writer = layer(before ? "gather" : "scatter", "exchange", {rows});
    const std::int64_t here = rows.shape[0];
    const std::int64_t all = before ? checked_multiply(here, shared_by_) : here;
    const AxisExchange gather =
        exchange_over(Axis::tensor, ExchangeKind::all_gather, bytes(all, hidden_));
    const AxisExchange scatter =
        exchange_over(Axis::tensor, ExchangeKind::reduce_scatter, bytes(all, hidden_));
    writer.forward_exchange(before ? gather : scatter);
    writer.backward_exchange(before ? scatter : gather);
    return writer.done(
        writer.output({before ? all : here / shared_by_, hidden_}, step_.matmul_bytes()));
  }

  // One grouped product over all local experts, which are assumed to have equal numbers of rows,
  // rounded up.
  void product(LayerWriter& writer, Pass pass, std::int64_t rows, std::int64_t out,
               std::int64_t in) const {
    const std::int64_t groups = experts_ / expert_.size;
    const std::int64_t all = checked_multiply(rows, step_.options().samples);
    const std::int64_t each = (all - 1) / groups + 1;
    if (pass == Pass::weight_gradient) {
      writer.gemm(pass, out, in, each, groups);
    } else {
      writer.gemm(pass, each, out, in, groups);
    }
  }

  // Writes the gradients of w2, of the gate's product, of w3, and of w1 with SiLU, and the sum of
  // the two input gradients. Also undoes the permutations before and after the experts.
  void backward_of_experts(LayerWriter& writer, std::int64_t rows) const {
    const double wide = bytes(rows, inner_);
    const double moved = bytes(rows, hidden_);
    const auto moves = [&] {
      if (expert_.size == 1) return;
      writer.backward(KernelKind::embedding, moved + 8 * count(rows, 1), moved);
    };
    moves();
    product(writer, Pass::weight_gradient, rows, hidden_, inner_);
    product(writer, Pass::data_gradient, rows, inner_, hidden_);
    writer.backward(KernelKind::elementwise, 2 * wide, wide, count(rows, inner_));
    writer.backward(KernelKind::elementwise, 2 * wide, wide, count(rows, inner_));
    product(writer, Pass::weight_gradient, rows, inner_, hidden_);
    product(writer, Pass::data_gradient, rows, hidden_, inner_);
    writer.backward(KernelKind::elementwise, 2 * wide, wide, 5 * count(rows, inner_));  // SiLU
    product(writer, Pass::weight_gradient, rows, inner_, hidden_);
    product(writer, Pass::data_gradient, rows, hidden_, inner_);
    writer.backward(KernelKind::elementwise, 2 * moved, moved, count(rows, hidden_));
    moves();
  }

  // SwiGLU of all local experts. `gathers`: `x` has the tokens of all ranks, so the tokens of local
  // experts are selected first, and weighted results are written back to their rows.
  Value computed(const Value& x, bool gathers) const {
    LayerWriter writer = layer("experts", "experts", {x});
    const std::int64_t local = experts_ / expert_.size;
    writer.attribute("count", local);
    writer.attribute("inner", inner_);
    writer.attribute("top", top_);
    writer.owns_experts(true);
    for (const char* name : {"w1", "w3"}) writer.parameter(name, {local, inner_, hidden_}, true);
    writer.parameter("w2", {local, hidden_, inner_}, true);
    const std::int64_t rows = gathers ? checked_multiply(arriving_, shared_by_) : x.shape[0];
    const double wide = bytes(rows, inner_);
    const bool reorders = expert_.size > 1;
    if (reorders) reorder(writer, rows, false);
    product(writer, Pass::forward, rows, inner_, hidden_);
    writer.forward(KernelKind::elementwise, wide, wide, 5 * count(rows, inner_));  // SiLU
    product(writer, Pass::forward, rows, inner_, hidden_);
    writer.forward(KernelKind::elementwise, 2 * wide, wide, count(rows, inner_));
    product(writer, Pass::forward, rows, hidden_, inner_);
    if (reorders) reorder(writer, rows, false);
    if (writer.backward_needed()) backward_of_experts(writer, rows);
    if (reorders) {
      writer.save_new("expert inputs", bytes(rows, hidden_));
    } else {
      writer.save(x, "expert inputs");
    }
    for (const char* name : {"w1 output", "activation", "w3 output", "product"}) {
      writer.save_new(name, wide);
    }
    if (gathers) writer.save_new("w2 output", bytes(rows, hidden_));
    writer.workspace(reorders ? bytes(rows, hidden_) : 0, 2 * wide);
    return writer.done(writer.output({gathers ? x.shape[0] : rows, hidden_}, step_.matmul_bytes()));
  }

  // The sum, in fp32, of the outputs of each token's experts times the router's weights.
  Value summed(const Value& rows) const {
    LayerWriter writer = layer("sum", "combine", {rows});
    const double narrow = bytes(chosen_, hidden_);
    const double wide = 4 * count(chosen_, hidden_);
    const double sums = 4 * count(tokens_, hidden_);
    reorder(writer, chosen_);
    writer.forward(KernelKind::elementwise, narrow, wide);
    writer.forward(KernelKind::elementwise, wide, sums, 2 * count(chosen_, hidden_));
    writer.forward(KernelKind::elementwise, sums, bytes(tokens_, hidden_));
    if (writer.backward_needed()) {
      writer.backward(KernelKind::elementwise, bytes(tokens_, hidden_), sums);
      writer.backward(KernelKind::elementwise, sums, wide, count(chosen_, hidden_));
      writer.backward(KernelKind::elementwise, sums + wide, 4 * count(chosen_, 1),
                      2 * count(chosen_, hidden_));  // gradient of the router's weights
      writer.backward(KernelKind::elementwise, wide, narrow);
    }
    writer.save_new("expert outputs", wide);
    writer.workspace(narrow, wide);
    return writer.done(writer.output({tokens_, hidden_}, step_.matmul_bytes()));
  }

  const OpCall& call_;
  StepBuilder& step_;
  const ExpertOptions& expert_;
  const std::int64_t tensor_;
  const std::int64_t experts_, top_, inner_, hidden_, tokens_;
  std::int64_t shared_by_ = 1;  // number of tensor ranks that divide each expert
  std::int64_t chosen_ = 0;     // token rows: tokens x experts chosen for each
  std::int64_t arriving_ = 0;   // token rows that arrive at the experts of the rank
};

}  // namespace

Value emit_grouped_experts(const OpCall& call) {
  require_routing(call);
  return ExpertWriter(call).write();
}

}  // namespace lockstep
