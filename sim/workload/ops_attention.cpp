// Rules of multi-head and grouped-query attention. The scenario chooses between a fused kernel
// (FlashAttention) and separate operators that write the scores to memory. Attention over
// context-parallel ranks is in ops_context.cpp.
#include <fmt/format.h>

#include "parallel/mesh.hpp"
#include "workload/checked.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// Dimensions of the heads from the arguments and the inputs, which are either one packed
// query-key-value tensor or three tensors. Throws ModelError if the heads do not divide the
// features.
Heads head_shape(const OpCall& call) {
  for (const Value& value : call.inputs) {
    if (value.is_sequence() && !value.tokens && value.shape[0] == call.input().shape[0]) continue;
    throw ModelError(fmt::format("attention needs sequences (tokens x features), but gets {}",
                                 shape_text(value)));
  }
  if (call.inputs.size() == 2) {
    throw ModelError("attention takes one packed input or three: query, key and value");
  }
  Heads heads;
  heads.query = call.integer("heads");
  heads.key = call.given("kv_heads") ? call.integer("kv_heads") : heads.query;
  heads.tokens = call.input().shape[0];
  heads.before = call.step.options().tokens_before;
  heads.samples = call.step.options().samples;
  if (heads.query % heads.key != 0) {
    throw ModelError(fmt::format("{} query heads cannot share {} key/value heads evenly",
                                 heads.query, heads.key));
  }
  const std::int64_t features = call.input().shape[1];
  const bool packed = call.inputs.size() == 1;
  const std::int64_t parts =
      packed ? checked_add(heads.query, checked_multiply(2, heads.key)) : heads.query;
  if (features % parts != 0) {
    throw ModelError(fmt::format("{} features are not divisible by {} {}", features, parts,
                                 packed ? "query, key and value heads" : "heads"));
  }
  heads.size = features / parts;
  if (call.given("value_size")) heads.value = call.integer("value_size");
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    const std::int64_t size = i == 1 ? heads.size : heads.value_size();
    if (call.inputs[i].shape[1] != heads.key * size) {
      throw ModelError(fmt::format("{} has {} features, {} heads of {} need {}",
                                   i == 1 ? "key" : "value", call.inputs[i].shape[1], heads.key,
                                   size, heads.key * size));
    }
  }
  return heads;
}

// Number of scores: pairs of query and key, over all heads and samples.
double scores(const Heads& heads) {
  const std::int64_t square = checked_multiply(heads.tokens, heads.keys());
  return static_cast<double>(
      checked_multiply(square, checked_multiply(heads.query, heads.samples)));
}

// Bytes of the keys and values of `tokens` tokens.
double key_bytes(const StepBuilder& step, const Heads& heads, std::int64_t tokens) {
  const std::int64_t features = heads.key * (heads.size + heads.value_size());
  return 1.0 * heads.samples * tokens * features * step.matmul_bytes();
}

// Adds the traffic of a later token slice of a pipeline: forward appends its keys and values to the
// cache of the earlier tokens, and backward adds its contribution to the gradients of the earlier
// keys and values (TeraPipe's terapipe.py: cache_grad).
void join_earlier_tokens(LayerWriter& layer, const Heads& heads) {
  if (heads.before == 0) return;
  const double own = key_bytes(layer.step(), heads, heads.tokens);
  const double earlier = key_bytes(layer.step(), heads, heads.before);
  Kernel& copy = layer.forward(KernelKind::copy, own, own);
  copy.launches = copy.operators = 2;
  if (!layer.backward_needed()) return;
  Kernel& sum = layer.late_backward(KernelKind::elementwise, 2 * earlier, earlier);
  sum.launches = sum.operators = 2;
}

// FlashAttention: two products in forward and five in backward, because backward recomputes the
// scores; a causal mask halves the products. Scores are not written to memory, but one log-sum-exp
// per row is saved. Dao et al., "FlashAttention", NeurIPS 2022, and "FlashAttention-2", section 3.
Value fused(const OpCall& call, LayerWriter& layer, const Heads& heads,
            const std::vector<Value>& inputs, bool causal) {
  StepBuilder& step = call.step;
  const Value y =
      layer.output({heads.tokens, heads.query * heads.value_size()}, step.matmul_bytes());
  const double share = causal ? heads.causal_share() : 1;
  const double product = 2 * scores(heads) * heads.size * share;
  // FLOPs of the product of attention weights and values. Backward has three products of one kind
  // and two of the other; their FLOPs are taken as 5/2 of the sum of both.
  const double of_values = heads.value == 0 ? product
                                            : product * static_cast<double>(heads.value) /
                                                  static_cast<double>(heads.size);
  const double lse = 4.0 * heads.samples * heads.query * heads.tokens;
  double in = 0;
  for (const Value& value : inputs) in += step.bytes(value);
  in += key_bytes(call.step, heads, heads.before);
  const double out = step.bytes(y);
  const auto shape = [&](Kernel& kernel) {
    kernel.math = step.matmul_math();
    kernel.m = heads.tokens;
    kernel.n = heads.keys();
    kernel.k = heads.size;
    kernel.batch = checked_multiply(heads.query, heads.samples);
  };
  shape(layer.forward(KernelKind::attention, in, out + lse, product + of_values));
  if (layer.backward_needed()) {
    // Three kernels: row sums of dO * O; the main kernel; the cast of dQ from its fp32 accumulator.
    const double accumulator = 4 * out / step.matmul_bytes();
    Kernel& rows = layer.backward(KernelKind::elementwise, 2 * out, lse + accumulator);
    rows.operators = 0;
    shape(layer.backward(KernelKind::attention, in + out + 2 * lse, in,
                         5 * (product + of_values) / 2));
    Kernel& convert = layer.backward(KernelKind::elementwise, accumulator, out);
    convert.operators = 0;
    layer.workspace(0, accumulator);
  }
  for (const Value& value : inputs) layer.save(value, "query, key, value");
  // nanotron copies queries, keys and values together to put samples first. It keeps the queries'
  // part of this copy and a second copy of keys and values (models/llama.py). Grouped queries are
  // copied separately.
  if (step.options().framework == FrameworkKind::nanotron && heads.key == heads.query) {
    layer.save_new("copied keys and values", key_bytes(step, heads, heads.tokens));
  }
  layer.save(y, "output");
  layer.save_new("logsumexp", lse).with_output = true;
  return y;
}

// T5's relative position bias: a table with one number per head and bucket of distances, which all
// layers of a stack share (Raffel et al. 2020, section 2.1). The layer that owns the table computes
// the biases of all pairs of tokens.
void relative_bias(const OpCall& call, LayerWriter& layer, const Heads& heads) {
  const std::int64_t buckets = call.integer("relative_buckets");
  if (buckets == 0) return;
  layer.parameter("relative_attention_bias.weight", {buckets, heads.query});
  const auto distances = static_cast<double>(checked_multiply(heads.tokens, heads.keys()));
  const double biases = distances * heads.query * call.step.weight_bytes();
  Kernel& bucketing = layer.forward(KernelKind::elementwise, 8 * 8 * distances, 8 * 8 * distances);
  bucketing.launches = bucketing.operators = 8;  // distances, logarithms, comparisons
  layer.forward(KernelKind::embedding, 8 * distances + biases, biases);
  layer.save_new("buckets", 8 * distances);
  if (layer.backward_needed()) {
    layer.late_backward(KernelKind::embedding, 2 * biases, biases).launches = 5;
  }
}

// Attention by separate operators that write the scores to memory; sets the options for
// emit_scores().
Value plain(const OpCall& call, LayerWriter& layer, const Heads& heads, bool causal) {
  ScoreRule rule;
  rule.causal = causal;
  rule.fused_softmax = call.integer("fused_softmax") != 0;
  rule.upcast = call.integer("upcast_softmax") != 0;
  rule.one_product =
      call.inputs.size() == 3 && call.step.options().parallel.tensor.shared_exchanges;
  rule.dropout = call.integer("dropout") != 0;
  rule.learned_bias = call.integer("learned_bias") != 0;
  rule.additions = call.integer("alibi") != 0 || rule.learned_bias ? 1 : 0;
  const Value y =
      layer.output({heads.tokens, heads.query * heads.value_size()}, call.step.matmul_bytes());
  relative_bias(call, layer, heads);
  if (rule.fused_softmax) {
    for (const Value& value : call.inputs) layer.save(value, "query, key, value");
  }
  emit_scores(layer, heads, rule, call.step.bytes(y));
  return y;
}

// nn.MultiheadAttention computes with tokens as the first dimension, before samples. Its projection
// therefore copies its input, adds the bias by a kernel of its own, and copies its result into
// three contiguous parts. The list of kernels is from a trace of torchvision's ViT in PyTorch 2.15.
// `packed`: bytes of the projection's result.
void turn_tokens_first(LayerWriter& layer, double packed) {
  const double own = packed / 3;
  layer.forward(KernelKind::copy, own, own);
  layer.forward(KernelKind::elementwise, packed, packed);
  layer.forward(KernelKind::copy, packed, packed);
  layer.views(10, 12);
  layer.workspace(packed, 0);
  if (!layer.backward_needed()) return;
  emit_picked_gradients(layer, packed);
  layer.backward(KernelKind::copy, packed, packed);
  layer.backward(KernelKind::copy, own, own);
}

// Attention of one rank that has whole sequences: views that form the heads, the fused or the plain
// kernels, and the copies before and after them.
Value attention_of_whole_sequences(const OpCall& call) {
  const Heads heads = head_shape(call);
  StepBuilder& step = call.step;
  LayerWriter layer = call.layer();
  layer.attends();
  layer.attribute("kv_heads", heads.key);
  // Fused kernels do not compute the gradient of a bias.
  const bool is_fused = step.options().fused_attention && call.integer("learned_bias") == 0;
  layer.attribute("fused", is_fused ? 1 : 0);
  std::vector<Value> inputs;
  for (const Value& value : call.inputs) inputs.push_back(layer.matmul_input(value));
  const bool packed = inputs.size() == 1;
  // Splitting into heads takes a view and a transpose for each of query, key and value, and one
  // more operator if they are packed.
  layer.views(packed ? 7 : 6, 6);
  join_earlier_tokens(layer, heads);
  const bool causal = call.integer("causal") != 0;
  Value y =
      is_fused ? fused(call, layer, heads, inputs, causal) : plain(call, layer, heads, causal);
  // The memory-efficient kernel, which PyTorch uses for fp32, writes samples as the first
  // dimension. nn.MultiheadAttention needs tokens first, so the output is copied, and both tensors
  // remain in memory.
  if (call.integer("tokens_first") != 0 && is_fused && y.element_bytes == 4) {
    const double bytes = step.bytes(y);
    layer.forward(KernelKind::copy, bytes, bytes);
    if (layer.backward_needed()) layer.backward(KernelKind::copy, bytes, bytes);
    y = layer.output(y.shape, y.element_bytes);
  }
  if (packed && call.integer("tokens_first") != 0) {
    turn_tokens_first(layer, step.bytes(inputs[0]));
  } else if (packed && layer.backward_needed()) {  // the three gradients are packed into one tensor
    layer.backward(KernelKind::copy, step.bytes(inputs[0]), step.bytes(inputs[0]));
  }
  layer.views(2, 2);
  return layer.done(y);
}

// The operator `attention`. Chooses the implementation by the scenario's context parallelism.
Value attention(const OpCall& call) {
  const ParallelOptions& parallel = call.step.options().parallel;
  if (parallel.context.size == 1) return attention_of_whole_sequences(call);
  if (parallel.context.exchange == ContextExchange::all_to_all) {
    return emit_turned(call, attention_of_whole_sequences);
  }
  if (!call.step.options().fused_attention || call.integer("learned_bias") != 0) {
    throw parallel_misfit(parallel, "context",
                          fmt::format("{}: parts of a sequence need fused attention; plain "
                                      "attention writes the scores of whole sequences",
                                      call.name),
                          "exchange: all-to-all, or fused attention");
  }
  return emit_rounds(call, head_shape(call), call.integer("causal") != 0);
}

}  // namespace

void emit_picked_gradients(LayerWriter& layer, double bytes) {
  Kernel& zeros = layer.backward(KernelKind::copy, 0, 3 * bytes);
  zeros.launches = zeros.operators = 3;
  Kernel& parts = layer.backward(KernelKind::copy, bytes, bytes);
  parts.launches = parts.operators = 3;
  Kernel& sums = layer.backward(KernelKind::elementwise, 4 * bytes, 2 * bytes);
  sums.launches = sums.operators = 2;
}

// Scores, scale, mask, softmax, dropout and the weighted sum as separate operators. With
// fused_softmax, as in Megatron-LM, one kernel scales, masks and normalises half-precision scores,
// and the products read the heads from the place to which the projection wrote them. With t
// queries, n keys and heads of d features, the products (m, n, k) per head and sample are (t, n, d)
// for the scores and (t, d, n) for the output.
void emit_scores(LayerWriter& layer, const Heads& heads, const ScoreRule& rule, double out) {
  StepBuilder& step = layer.step();
  const std::int64_t t = heads.tokens, all = heads.keys();
  const std::int64_t batch = checked_multiply(heads.query, heads.samples);
  const std::int64_t value = heads.value_size();
  const double queries = heads.value == 0 ? out
                                          : out * static_cast<double>(heads.size) /
                                                static_cast<double>(value);  // bytes; keys as many
  const double count = scores(heads);
  const double matrix = count * step.matmul_bytes();
  const bool megatron = rule.fused_softmax;
  const bool masks = rule.causal && !megatron;
  const double wide = (step.autocast() || rule.upcast) && !megatron ? 4 * count : matrix;
  const bool casts = wide != matrix;
  const auto elementwise = [&](bool wanted, double read, double written, double flops) {
    if (wanted) layer.forward(KernelKind::elementwise, read, written, flops);
  };
  // torch.bmm needs contiguous heads: query, key and value are copied out of the projections, and
  // shared key and value heads are repeated.
  if (!megatron) {
    Kernel& gather = layer.forward(KernelKind::copy, 2 * queries + out, 2 * queries + out);
    gather.launches = gather.operators = 3;
  }
  layer.gemm(Pass::forward, t, all, heads.size, batch);
  elementwise(!megatron, matrix, matrix, count);  // scale
  for (int i = 0; i < rule.additions; ++i) elementwise(true, matrix, matrix, count);
  elementwise(masks, matrix, matrix, count);
  elementwise(casts, matrix, wide, 0);
  // Megatron-LM's causal kernel reads only the lower triangle, but writes whole rows.
  const KernelKind softmax = megatron ? KernelKind::elementwise : KernelKind::softmax;
  const double triangle = megatron && rule.causal ? wide * heads.causal_share() : wide;
  layer.forward(softmax, triangle, wide, 5 * count);
  elementwise(rule.dropout, wide, wide + count, 10 * count);
  elementwise(casts, wide, matrix, 0);
  layer.gemm(Pass::forward, t, value, all, batch);
  layer.forward(KernelKind::copy, out, out);  // joins the heads to features

  if (layer.backward_needed()) {
    const auto gradient = [&](bool wanted, double read, double written) {
      if (wanted) layer.backward(KernelKind::elementwise, read, written, count);
    };
    layer.backward(KernelKind::copy, out, out);
    layer.gemm(Pass::backward, t, all, value, batch);  // gradient of the attention weights
    layer.gemm(Pass::backward, all, value, t, batch);  // gradient of the values
    gradient(casts, matrix, wide);
    gradient(rule.dropout, wide + count, wide);
    layer.backward(softmax, 2 * triangle, wide, 4 * count);
    gradient(casts, wide, matrix);
    gradient(masks, matrix, matrix);
    gradient(rule.learned_bias, matrix, matrix / static_cast<double>(heads.samples));
    gradient(!megatron, matrix, matrix);                    // scale
    layer.gemm(Pass::backward, t, heads.size, all, batch);  // gradient of the queries
    layer.gemm(Pass::backward, all, heads.size, t, batch);  // gradient of the keys
    if (!megatron) {
      Kernel& scatter = layer.backward(KernelKind::copy, 2 * queries + out, 2 * queries + out);
      scatter.launches = scatter.operators = 3;
    }
  }
  if (!megatron) {
    layer.save_new("query", queries);
    layer.save_new("key", queries);
    // The value is a view of the fused product that wrote query, key and value, so the whole
    // product remains in memory (Megatron-core).
    layer.save_new("value", rule.one_product ? 2 * queries + out : out);
  }
  // Megatron-core (transformer/dot_product_attention.py) writes the product of queries and keys
  // into its global memory buffer.
  if (rule.upcast) layer.shared_buffer(matrix);
  layer.save_new("softmax", wide);
  if (rule.dropout) layer.save_new("mask", count);
  if (rule.dropout || casts) layer.save_new("weights", matrix);
  layer.workspace(2 * wide, 2 * wide);
}

std::vector<OpSpec> attention_ops() {
  using T = ArgumentType;
  return {
      {"attention",
       {{"heads", T::integer, true, 0, 1},
        {"kv_heads", T::integer, false, not_given, 1},
        {"causal", T::flag, false, 0},
        {"alibi", T::flag, false, 0},
        {"learned_bias", T::flag, false, 0},
        {"relative_buckets", T::integer, false, 0, 0, 65535},
        {"fused_softmax", T::flag, false, 0},
        {"upcast_softmax", T::flag, false, 0},
        {"dropout", T::flag, false, 0},
        {"tokens_first", T::flag, false, 0},
        {"value_size", T::integer, false, not_given, 1}},
       1,
       3,
       attention},
  };
}

}  // namespace lockstep
