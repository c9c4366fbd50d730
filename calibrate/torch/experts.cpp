// Computes a mixture of experts as Hugging Face's MixtralSparseMoeBlock does: softmax over all
// experts, and renormalization of the `top` best. A loop over experts then gathers the tokens of
// each expert, computes, and adds the results back.
#include "torch/experts.hpp"

#include <tuple>

namespace lockstep {

at::Tensor mix_experts(const at::Tensor& x, const at::Tensor& logits,
                       const std::vector<at::Tensor>& weights, std::int64_t top) {
  const std::int64_t features = x.size(-1), experts = logits.size(-1);
  const at::Tensor tokens = x.reshape({-1, features});
  at::Tensor share, chosen;
  std::tie(share, chosen) =
      at::topk(at::softmax(logits.reshape({-1, experts}).to(at::kFloat), -1), top, -1);
  share = (share / share.sum(-1, true)).to(x.scalar_type());
  at::Tensor sum;
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto weight = [&](std::int64_t which) {
      return weights[static_cast<std::size_t>(3 * e + which)];
    };
    const at::Tensor where =
        at::nonzero(chosen.eq(e));  // each row: a token, and the expert's place among its best
    const at::Tensor rows = where.select(1, 0);
    const at::Tensor mine = tokens.index_select(0, rows);
    const at::Tensor inner = at::silu(at::linear(mine, weight(0))) * at::linear(mine, weight(2));
    const at::Tensor part = share.index({rows, where.select(1, 1)}).unsqueeze(1);
    const at::Tensor y = at::linear(inner, weight(1)) * part;
    if (!sum.defined()) sum = at::zeros(tokens.sizes(), y.options());
    sum = sum.index_add(0, rows, y);
  }
  return sum.reshape(x.sizes());
}

}  // namespace lockstep
