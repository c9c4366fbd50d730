// A mixture of experts in LibTorch, as Hugging Face's MixtralSparseMoeBlock runs it (the
// simulator's operator: sim/workload/ops_experts.cpp). Includes ATen: only for .cpp files.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace lockstep {

// x: (samples, tokens, features); logits: the router's, (samples, tokens, experts); weights: w1, w2
// and w3 of each expert.
at::Tensor mix_experts(const at::Tensor& x, const at::Tensor& logits,
                       const std::vector<at::Tensor>& weights, std::int64_t top);

}  // namespace lockstep
