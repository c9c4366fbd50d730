// Prices fp16 and bf16 compression and PowerSGD.
#include "strategies/ddp/hooks.hpp"

#include <algorithm>

namespace lockstep {

namespace {

// Half-precision compression: cast, reduce half the bytes, divide and cast back in place (fact 20).
HookPlan compress(const Bucket& bucket, const ComputeCosts& costs,
                  const std::function<PricedTransfer(double)>& all_reduce) {
  const double half = 2 * bucket.elements;
  HookPlan plan;
  plan.steps.push_back({costs.stream(bucket.bytes + half, 1), all_reduce(half)});
  plan.after = costs.stream(half + half + half + bucket.bytes, 2);  // divide, then cast back
  return plan;
}

// PowerSGD (fact 21): an m x n gradient M becomes P (m x r) and Q (n x r). Three reductions that
// wait for each other: tensors too small to compress, P = M Q, and Q = M' P after P was made
// orthogonal. At these ranks every product is bound by reading or writing M once; the error
// feedback adds two passes over three copies of M.
HookPlan power_sgd(const Bucket& bucket, const std::vector<GradientTensor>& tensors, int rank,
                   const ComputeCosts& costs,
                   const std::function<PricedTransfer(double)>& all_reduce) {
  double plain = 0, p = 0, q = 0, matrices = 0;
  int compressed = 0;
  for (const int index : bucket.tensors) {
    const GradientTensor& tensor = tensors[static_cast<std::size_t>(index)];
    const double rows = tensor.shape.empty() ? 1 : static_cast<double>(tensor.shape.front());
    const double columns = tensor.elements / rows;
    const double kept = std::min<double>(rank, std::min(rows, columns));
    const double bytes = tensor.elements * tensor.element_bytes;
    // Worth compressing only if the factors are smaller (min_compression_rate 2 in PyTorch).
    if (tensor.shape.size() < 2 || 2 * kept * (rows + columns) > tensor.elements) {
      plain += bytes;
      continue;
    }
    p += kept * rows * tensor.element_bytes;
    q += kept * columns * tensor.element_bytes;
    matrices += bytes;
    ++compressed;
  }
  HookPlan plan;
  const QueuedWork add_error = costs.stream(3 * bucket.bytes, 1);
  if (plain > 0) plan.steps.push_back({add_error, all_reduce(plain)});
  if (compressed > 0) {
    const QueuedWork first_product = costs.stream(matrices + p, compressed);
    plan.steps.push_back(
        {plain > 0 ? first_product : append(add_error, first_product), all_reduce(p)});
    // Orthogonalisation passes over P once per kept column.
    plan.steps.push_back({append(costs.stream(2 * rank * p, rank * compressed),
                                 costs.stream(matrices + q, compressed)),
                          all_reduce(q)});
    plan.after = append(costs.stream(matrices, compressed), costs.stream(3 * bucket.bytes, 1));
  }
  return plan;
}

}  // namespace

HookPlan plan_hook(const DdpOptions& options, const Bucket& bucket,
                   const std::vector<GradientTensor>& tensors, const ComputeCosts& costs,
                   const std::function<PricedTransfer(double bytes)>& all_reduce) {
  switch (options.comm_hook) {
    case CommHook::fp16_compress:
    case CommHook::bf16_compress:
      return compress(bucket, costs, all_reduce);
    case CommHook::power_sgd:
      return power_sgd(bucket, tensors, options.power_sgd_rank, costs, all_reduce);
    case CommHook::none:
      break;
  }
  HookPlan plan;
  plan.steps.push_back({{}, all_reduce(bucket.bytes)});
  return plan;
}

}  // namespace lockstep
