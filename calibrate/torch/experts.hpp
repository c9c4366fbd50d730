// A mixture of experts in LibTorch, as Hugging Face's MixtralSparseMoeBlock computes it. The
// simulator's operator is in sim/workload/ops_experts.cpp. Includes ATen, so only .cpp files may
// include it.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace lockstep {

// `x`: (samples, tokens, features). `logits`: the router's output, (samples, tokens, experts).
// `weights`: w1, w2 and w3 of each expert.
at::Tensor mix_experts(const at::Tensor& x, const at::Tensor& logits,
                       const std::vector<at::Tensor>& weights, std::int64_t top);

}  // namespace lockstep
