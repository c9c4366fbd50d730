// The operations between the heads of an attention layer. Includes ATen: only for .cpp files.
#pragma once

#include <ATen/ATen.h>

namespace lockstep {

struct AttentionRule {
  bool causal = false;
  // Adds to the score of key j a multiple of j that differs from head to head: the linear biases of
  // Press et al., "Train Short, Test Long", ICLR 2022, up to a constant per query, which softmax
  // ignores.
  bool alibi = false;
  // A bias for every pair of tokens and head, as T5's: of the given table, (buckets, heads), in the
  // layer that has one; the others add as many numbers.
  bool adds_bias = false;
  at::Tensor bias_table;
  double dropout = 0;  // probability, of the weights
  bool fused = false;  // scaled_dot_product_attention, where LibTorch has it (2.0 and later)
};

// softmax(q k' / sqrt(size) + biases) v for tensors of (samples, heads, tokens, size).
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionRule& rule);

// The biases of `heads` heads, (heads, 1, keys): slopes 2^(-8 i / n) for i = 1 ... n. If n is no
// power of two, the slopes of the next power: every second from the second on, then the others.
at::Tensor alibi_biases(std::int64_t heads, std::int64_t keys, const at::TensorOptions& options);

// T5's, (heads, tokens, tokens), from a table (buckets, heads): half of the buckets for distances
// one by one, the rest logarithmic up to 128, all for both directions (Raffel et al. 2020, section
// 2.1).
at::Tensor relative_biases(const at::Tensor& table, std::int64_t tokens);

// Rotates pairs of each head's features by angles that grow with the position (Su et al.,
// "RoFormer", 2021); x: (samples, tokens, heads x size).
at::Tensor rotate_positions(const at::Tensor& x, std::int64_t heads);

}  // namespace lockstep
