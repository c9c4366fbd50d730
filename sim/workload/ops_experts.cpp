// Rule of a mixture of experts as Hugging Face's MixtralSparseMoeBlock runs it (Jiang et al. 2024,
// "Mixtral of Experts"): a loop over the experts, each of which gathers its tokens, computes a
// SwiGLU, and adds its weighted result to the output. All experts are assumed to have the same
// load. Grouped experts, and experts over several ranks, are in ops_grouped_experts.cpp.
#include <fmt/format.h>

#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// Sizes of one mixture on one rank. Tokens are counted over the whole local batch.
struct Routing {
  std::int64_t experts = 0, top = 0, tokens = 0, each = 0;  // `each`: tokens of one expert
  std::int64_t hidden = 0, inner = 0;
};

// The router: softmax of the logits in fp32, the top experts of each token, their normalised
// weights, and the masks that say which expert gets which token.
void route(LayerWriter& layer, const Routing& r, const Value& logits) {
  const double all = static_cast<double>(r.tokens) * r.experts;
  const double chosen = static_cast<double>(r.tokens) * r.top;
  layer.forward(KernelKind::softmax, logits.element_bytes * all, 4 * all, 5 * all);
  layer.forward(KernelKind::elementwise, 4 * all, 12 * chosen);  // topk: values and positions
  Kernel& norm = layer.forward(KernelKind::elementwise, 12 * chosen, 8 * chosen);
  norm.launches = norm.operators = 3;  // sum, quotient, cast
  Kernel& masks = layer.forward(KernelKind::copy, 8 * chosen, 2 * 8 * chosen * r.experts);
  masks.launches = masks.operators = 3;  // one_hot: zeros, scatter; permuted
  if (!layer.backward_needed()) return;
  Kernel& back = layer.late_backward(KernelKind::elementwise, 16 * chosen, 8 * chosen);
  back.launches = back.operators = 4;  // backward of cast, quotient and sum
  Kernel& scatter = layer.late_backward(KernelKind::copy, 4 * chosen, 4 * all);
  scatter.launches = 2;  // backward of topk: zeros and scatter
  layer.late_backward(KernelKind::softmax, 8 * all, logits.element_bytes * all);
}

// One expert: gathers its tokens, computes w2(SiLU(w1 x) * w3 x), and adds the result times the
// router's weight to the output.
void expert(LayerWriter& layer, const Routing& r, std::int64_t number) {
  StepBuilder& step = layer.step();
  const double size = step.matmul_bytes();
  const double wide = size * static_cast<double>(checked_multiply(r.each, r.inner));
  const double rows = size * static_cast<double>(checked_multiply(r.each, r.hidden));
  const double whole = size * static_cast<double>(checked_multiply(r.tokens, r.hidden));
  const auto weight = [&](const char* name, std::int64_t out, std::int64_t in) {
    layer.parameter(fmt::format("{}.{}.weight", number, name), {out, in}, true);
  };
  weight("w1", r.inner, r.hidden);
  weight("w2", r.hidden, r.inner);
  weight("w3", r.inner, r.hidden);
  const auto streams = [&](Pass pass, double read, double written) {
    if (pass == Pass::forward) {
      layer.forward(KernelKind::elementwise, read, written, written / size);
    } else {
      layer.backward(KernelKind::elementwise, read, written, written / size);
    }
  };
  layer.forward(KernelKind::copy, 8.0 * r.tokens * r.top, 16.0 * r.each);  // positions in the mask
  layer.forward(KernelKind::embedding, rows + 8.0 * r.each, rows);         // gathers tokens
  layer.gemm(Pass::forward, r.each, r.inner, r.hidden);
  streams(Pass::forward, wide, wide);  // SiLU
  layer.gemm(Pass::forward, r.each, r.inner, r.hidden);
  streams(Pass::forward, 2 * wide, wide);
  layer.gemm(Pass::forward, r.each, r.hidden, r.inner);
  streams(Pass::forward, rows, rows);                                   // times the router's weight
  layer.forward(KernelKind::embedding, 2 * rows + 8.0 * r.each, rows);  // index_add_

  if (!layer.backward_needed()) return;
  layer.backward(KernelKind::embedding, rows + 8.0 * r.each, rows);
  streams(Pass::backward, rows, rows);      // gradient of the output of w2
  streams(Pass::backward, 2 * rows, rows);  // gradient of the router's weight: product and sum
  layer.gemm(Pass::data_gradient, r.each, r.inner, r.hidden);
  layer.gemm(Pass::weight_gradient, r.hidden, r.inner, r.each);
  streams(Pass::backward, 2 * wide, wide);  // gradients of both factors of the gate
  streams(Pass::backward, 2 * wide, wide);
  layer.gemm(Pass::data_gradient, r.each, r.hidden, r.inner);
  layer.gemm(Pass::weight_gradient, r.inner, r.hidden, r.each);
  streams(Pass::backward, 2 * wide, wide);  // SiLU
  layer.gemm(Pass::data_gradient, r.each, r.hidden, r.inner);
  layer.gemm(Pass::weight_gradient, r.inner, r.hidden, r.each);
  streams(Pass::backward, 2 * rows, rows);
  // The gradient of the gathered tokens is a tensor of all tokens that is first filled with zeros.
  // It is then added to the sum over the other experts.
  layer.backward(KernelKind::copy, 0, whole);
  layer.backward(KernelKind::embedding, 2 * rows + 32.0 * r.each, rows).launches = 5;
  streams(Pass::backward, 2 * whole, whole);
}

// The operator `experts`. With expert parallelism, products are always grouped.
Value experts(const OpCall& call) {
  const bool grouped = call.given("grouped") && call.integer("grouped") != 0;
  if (grouped || call.step.options().parallel.expert.size > 1) return emit_grouped_experts(call);
  const Value& x = call.input();
  const Value& logits = call.inputs[1];
  require_routing(call);
  Routing r;
  r.experts = call.integer("count");
  r.top = call.integer("top");
  r.inner = call.integer("inner");
  r.hidden = x.shape[1];
  r.tokens = call.step.rows(x);
  // The mean number of tokens per expert, rounded up.
  r.each = (checked_multiply(r.tokens, r.top) - 1) / r.experts + 1;
  LayerWriter layer = call.layer();
  layer.owns_experts(true);
  const Value in = layer.matmul_input(x);
  const Value y = layer.output(x.shape, call.step.matmul_bytes());
  route(layer, r, logits);
  layer.forward(KernelKind::copy, 0, call.step.bytes(y));  // zeros, to which experts add
  for (std::int64_t i = 0; i < r.experts; ++i) expert(layer, r, i);
  // Saved tensors of all experts together: routed rows of `hidden` and of `inner` features.
  const double size = call.step.matmul_bytes();
  const double routed = static_cast<double>(r.tokens) * r.top;
  const double wide = routed * static_cast<double>(r.inner) * size;
  const double narrow = routed * static_cast<double>(r.hidden) * size;
  layer.save_new("expert inputs", narrow);
  for (const char* name : {"w1 output", "activation", "w3 output", "product"}) {
    layer.save_new(name, wide);
  }
  layer.save_new("w2 output", narrow);
  layer.save_new("routing", routed * 24 + 4.0 * r.tokens * r.experts);
  const double of_one_expert = wide / static_cast<double>(r.experts);
  layer.workspace(of_one_expert, 2 * of_one_expert + 2 * call.step.bytes(in));
  return layer.done(y);
}

}  // namespace

void require_routing(const OpCall& call) {
  const Value& x = call.input();
  const Value& logits = call.inputs[1];
  const std::int64_t experts = call.integer("count");
  if (!x.is_sequence() || x.tokens) {
    throw ModelError(
        fmt::format("experts need a sequence (tokens x features), but get {}", shape_text(x)));
  }
  if (call.integer("top") > experts) {
    throw ModelError(
        fmt::format("{} of {} experts cannot be chosen", call.integer("top"), experts));
  }
  if (logits.shape != std::vector<std::int64_t>{x.shape[0], experts}) {
    throw ModelError(fmt::format("the router gives {}, {} are needed", shape_text(logits),
                                 fmt::format("{} x {}", x.shape[0], experts)),
                     "from: [tokens, router]");
  }
}

std::vector<OpSpec> expert_ops() {
  using T = ArgumentType;
  return {
      {"experts",
       {{"count", T::integer, true, 0, 1, 4096},
        {"inner", T::integer, true, 0, 1},
        {"top", T::integer, false, 2, 1, 4096},
        {"grouped", T::flag, false, not_given}},
       2,
       2,
       experts},
  };
}

}  // namespace lockstep
