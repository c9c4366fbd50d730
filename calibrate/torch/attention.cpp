// Computes attention in LibTorch: plain, with all scores in memory, or fused by
// scaled_dot_product_attention if LibTorch has it. Formulas of ALiBi, T5's relative positions and
// RoPE follow the papers named in the header.
#include "torch/attention.hpp"

#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

at::Tensor later_keys(const at::Tensor& q, const at::Tensor& k) {
  return at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).triu(1);
}

// Writes all scores to memory, like the simulator's plain attention.
at::Tensor plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const AttentionRule& rule) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * (1 / std::sqrt(double(q.size(-1))));
  if (rule.alibi) scores = scores + alibi_biases(q.size(1), k.size(-2), q.options());
  if (rule.adds_bias) {
    const at::Tensor biases = rule.bias_table.defined()
                                  ? relative_biases(rule.bias_table, k.size(-2))
                                  : at::zeros({q.size(1), q.size(-2), k.size(-2)}, q.options());
    scores = scores + biases;
  }
  if (rule.causal) scores = scores.masked_fill(later_keys(q, k), minus_infinity);
  at::Tensor weights = at::softmax(scores, -1);
  if (rule.dropout > 0) weights = at::dropout(weights, rule.dropout, true);
  return at::matmul(weights, v);
}

#if TORCH_VERSION_MAJOR >= 2
// The fused call accepts either biases or a causal flag, so the biases include the causal mask.
at::Tensor fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const AttentionRule& rule) {
  if (!rule.alibi) {
    return at::scaled_dot_product_attention(q, k, v, {}, rule.dropout, rule.causal);
  }
  at::Tensor biases = alibi_biases(q.size(1), k.size(-2), q.options());
  biases = rule.causal ? biases.masked_fill(later_keys(q, k), minus_infinity)
                       : biases.expand({-1, q.size(-2), -1});
  return at::scaled_dot_product_attention(q, k, v, biases, rule.dropout, false);
}
#endif

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionRule& rule) {
#if TORCH_VERSION_MAJOR >= 2
  if (rule.fused) return fused(q, k, v, rule);
#endif
  return plain(q, k, v, rule);
}

at::Tensor relative_biases(const at::Tensor& table, std::int64_t tokens) {
  constexpr double farthest = 128;
  const std::int64_t sided = std::max<std::int64_t>(table.size(0) / 2, 2), near = sided / 2;
  const at::Tensor place = at::arange(tokens, table.options().dtype(at::kLong));
  const at::Tensor ahead = place.unsqueeze(0) - place.unsqueeze(1);
  const at::Tensor distance = ahead.abs();
  const at::Tensor far =
      (at::log(distance.to(at::kFloat).clamp_min(1) / static_cast<double>(near)) /
           std::log(farthest / static_cast<double>(near)) * static_cast<double>(sided - near) +
       static_cast<double>(near))
          .to(at::kLong)
          .clamp_max(sided - 1);
  const at::Tensor bucket =
      at::where(distance.lt(near), distance, far) + ahead.gt(0).to(at::kLong) * sided;
  return at::embedding(table, bucket.clamp_max(table.size(0) - 1)).permute({2, 0, 1});
}

at::Tensor alibi_biases(std::int64_t heads, std::int64_t keys, const at::TensorOptions& options) {
  std::int64_t power = 1;
  while (power < heads) power *= 2;
  const auto wide = options.dtype(at::kFloat);
  at::Tensor slopes = at::pow(2.0, at::arange(1, power + 1, wide) * (-8.0 / double(power)));
  if (power != heads) {
    slopes =
        at::cat({slopes.slice(0, 1, power, 2), slopes.slice(0, 0, power, 2)}).slice(0, 0, heads);
  }
  const at::Tensor positions = at::arange(1 - keys, 1, wide);
  return (slopes.view({heads, 1, 1}) * positions).to(options);
}

at::Tensor rotate_positions(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t tokens = x.size(1), size = x.size(2) / heads;
  const auto options = at::TensorOptions(at::kFloat).device(x.device());
  const at::Tensor rates = at::pow(10000.0, at::arange(0, size, 2, options) / -double(size));
  const at::Tensor angles = at::outer(at::arange(tokens, options), rates).repeat({1, 2});
  const at::Tensor split = x.view({x.size(0), tokens, heads, size});
  const at::Tensor cosine = angles.cos().to(x.scalar_type()).unsqueeze(1);
  const at::Tensor sine = angles.sin().to(x.scalar_type()).unsqueeze(1);
  const at::Tensor swapped =
      at::cat({-split.slice(-1, size / 2, size), split.slice(-1, 0, size / 2)}, -1);
  return (split * cosine + swapped * sine).reshape(x.sizes());
}

}  // namespace lockstep
