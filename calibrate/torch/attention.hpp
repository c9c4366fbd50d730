// The operations of attention between the projections: scores, biases, softmax and weighted sum,
// for all heads. real_network.cpp uses them. Includes ATen, so only .cpp files may include it.
#pragma once

#include <ATen/ATen.h>

namespace lockstep {

struct AttentionRule {
  bool causal = false;
  // Adds j times a slope of the head to the score of key j. These are the linear biases of Press et
  // al., "Train Short, Test Long", ICLR 2022, except for a constant per query, which softmax
  // cancels.
  bool alibi = false;
  // Adds a bias for every pair of tokens and every head, as T5 does. The biases come from
  // `bias_table` (buckets, heads) if the layer has one; otherwise zeros are added, which cost as
  // much.
  bool adds_bias = false;
  at::Tensor bias_table;
  double dropout = 0;  // probability with which a weight becomes 0
  bool fused = false;  // use scaled_dot_product_attention if LibTorch has it (2.0 and later)
};

// softmax(q k' / sqrt(size) + biases) v for tensors of (samples, heads, tokens, size).
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionRule& rule);

// The biases of n = `heads` heads, (heads, 1, keys), with slopes 2^(-8 i / n) for i = 1 ... n. If n
// is no power of two, the slopes of the next power of two are used: first the second, fourth and so
// on, then the others.
at::Tensor alibi_biases(std::int64_t heads, std::int64_t keys, const at::TensorOptions& options);

// T5's biases, (heads, tokens, tokens), from a table (buckets, heads). Each direction has half of
// the buckets; half of these are for single distances, the others for logarithmic ranges up to 128
// (Raffel et al. 2020, section 2.1).
at::Tensor relative_biases(const at::Tensor& table, std::int64_t tokens);

// Rotates pairs of each head's features by angles that grow with the position (Su et al.,
// "RoFormer", 2021); x: (samples, tokens, heads x size).
at::Tensor rotate_positions(const at::Tensor& x, std::int64_t heads);

}  // namespace lockstep
