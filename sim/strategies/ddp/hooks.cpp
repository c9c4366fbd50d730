// Computes the costs of compression by counting how often each kernel passes over device memory:
// casts, PowerSGD, sparse messages and messages of few bits. Each function names the code or paper
// whose kernels it counts. On CPUs, stages that a profile measured replace these counts.
//
// In the formulas, n is the number of elements of a bucket, b the number of bytes of a gradient
// element, and W the number of ranks.
#include "strategies/ddp/hooks.hpp"

#include <algorithm>
#include <utility>

#include "strategies/common/top_k.hpp"

namespace lockstep {

namespace {

// The plan that a CPU profile's measured stages of a hook give: stage 0, message 0, stage 1,
// message 1, and so on. If a message has no bytes, the stages before and after it are joined.
// Returns a plan without steps if nothing was measured.
HookPlan measured(const HookSettings& settings, const Bucket& bucket, Collective kind,
                  const std::vector<double>& messages, const HookPrices& prices) {
  HookPlan plan;
  if (!prices.cpu) return plan;
  const std::vector<QueuedWork> stages = prices.costs.hook_stages(settings, bucket.bytes);
  if (stages.empty()) return plan;
  plan.in_callbacks = true;
  plan.after = stages.front();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i] > 0) {
      plan.steps.push_back({std::exchange(plan.after, {}), prices.collective(kind, messages[i])});
    }
    plan.after = append(plan.after, stages[i + 1]);
  }
  return plan;
}

// Half-precision compression: cast, reduce half of the bytes, divide, and cast back in place (fact
// 20).
HookPlan compress(const Bucket& bucket, const HookPrices& prices) {
  const ComputeCosts& costs = prices.costs;
  const double half = 2 * bucket.elements;
  HookPlan plan;
  plan.steps.push_back(
      {costs.stream(bucket.bytes + half, 1), prices.collective(Collective::all_reduce, half)});
  plan.after = costs.stream(half + half + half + bucket.bytes, 2);  // divide, then cast back
  return plan;
}

// PyTorch's Gram-Schmidt over one factor of each of `matrices` matrices; the factors have `bytes`
// together (powerSGD_hook.py: _orthogonalize). Three kernels divide a column by its norm plus
// epsilon. Four kernels (multiply, sum, multiply, subtract) remove its part from the columns behind
// it, in seven passes over these columns, including writes. On average, half of the other columns
// are behind a column.
QueuedWork gram_schmidt(double bytes, int rank, int matrices, const ComputeCosts& costs) {
  const double column = bytes / rank;
  return append(costs.stream(3 * column * rank, 3 * rank * matrices),
                rank == 1
                    ? QueuedWork{}
                    : costs.stream(7 * column * rank * (rank - 1) / 2, 4 * (rank - 1) * matrices));
}

// PowerSGD (fact 21) replaces an m x n gradient M by the factors P (m x r) and Q (n x r). Three
// reductions follow each other: the tensors that are too small to compress; P = M Q; and Q = M' P,
// after P has been orthogonalised. Because the factors have few columns, the time of each product
// is that of reading or writing M once. Error feedback adds three passes over the bucket before and
// three after.
HookPlan power_sgd(const Bucket& bucket, const std::vector<GradientTensor>& tensors, int rank,
                   Orthogonalization orthogonalization, const HookPrices& prices) {
  const ComputeCosts& costs = prices.costs;
  const auto all_reduce = [&](double bytes) {
    return prices.collective(Collective::all_reduce, bytes);
  };
  const bool schmidt = orthogonalization == Orthogonalization::gram_schmidt;
  double plain = 0, p = 0, q = 0, matrices = 0;
  int compressed = 0;
  for (const int index : bucket.tensors) {
    const GradientTensor& tensor = tensors[static_cast<std::size_t>(index)];
    const double rows = tensor.shape.empty() ? 1 : static_cast<double>(tensor.shape.front());
    const double columns = tensor.elements / rows;
    const double kept = std::min<double>(rank, std::min(rows, columns));
    const double bytes = tensor.elements * tensor.element_bytes;
    // Compressed only if the factors are smaller than the tensor (min_compression_rate 2 in
    // PyTorch).
    if (tensor.shape.size() < 2 || 2 * kept * (rows + columns) > tensor.elements) {
      plain += bytes;
      continue;
    }
    p += kept * rows * tensor.element_bytes;
    q += kept * columns * tensor.element_bytes;
    matrices += bytes;
    ++compressed;
  }
  HookPlan plan = measured({.hook = CodedHook::powersgd, .rank = rank, .ranks = prices.ranks},
                           bucket, Collective::all_reduce, {plain, p, q}, prices);
  if (!plan.steps.empty()) return plan;
  const QueuedWork add_error = costs.stream(3 * bucket.bytes, 1);
  if (plain > 0) plan.steps.push_back({add_error, all_reduce(plain)});
  if (compressed > 0) {
    QueuedWork first_product = costs.stream(matrices + p, compressed);
    // Fused orthogonalisation reads and writes P once for each column.
    QueuedWork orthogonal = costs.stream(2 * rank * p, rank * compressed);
    if (schmidt) {
      first_product = append(gram_schmidt(q, rank, compressed, costs), first_product);
      orthogonal = gram_schmidt(p, rank, compressed, costs);
    }
    plan.steps.push_back(
        {plain > 0 ? first_product : append(add_error, first_product), all_reduce(p)});
    plan.steps.push_back(
        {append(orthogonal, costs.stream(matrices + q, compressed)), all_reduce(q)});
    plan.after = append(costs.stream(matrices, compressed), costs.stream(3 * bucket.bytes, 1));
  }
  // PyTorch's many kernels would compete with backward, so they run after it (fact H124).
  if (schmidt) {
    plan.serial = true;
    plan.decode = std::exchange(plan.after, {});
  }
  return plan;
}

// Bytes that are moved to read or write `elements` scattered elements: a sector of 32 bytes for
// each (CUDA programming guide, device memory accesses), but at most one pass over the bucket.
double scattered(double elements, const Bucket& bucket) {
  return std::min(32 * elements, bucket.bytes);
}
constexpr double index_bytes = 4;  // fact H125

// Top-k: selects the largest elements and keeps the rest (top_k_work()), all-gathers values and
// places, then adds up the messages of all ranks.
HookPlan top_k(const Bucket& bucket, const TopKHook& hook, const HookPrices& prices) {
  const double sent = hook.fraction * bucket.elements;
  const double message = sent * (bucket.bytes / bucket.elements + index_bytes);
  HookPlan plan =
      measured({.hook = CodedHook::top_k, .fraction = hook.fraction, .ranks = prices.ranks}, bucket,
               Collective::all_gather, {prices.ranks * message}, prices);
  if (!plan.steps.empty()) return plan;
  plan.steps.push_back(
      {hook.selection == Selection::one_block
           ? one_block_top_k_work(prices.costs, bucket.bytes, 1, prices.multiprocessors)
           : top_k_work(prices.costs, bucket.bytes, 1),
       prices.collective(Collective::all_gather, prices.ranks * message)});
  // First the bucket is cleared. Then each message is read, and its values are added at their
  // places.
  plan.decode = append(
      prices.costs.stream(bucket.bytes, 1),
      prices.costs.stream(prices.ranks * (message + 2 * scattered(sent, bucket)), prices.ranks));
  return plan;
}

// Random-k: all ranks draw the same places, so the values are all-reduced and no places are sent.
HookPlan random_k(const Bucket& bucket, const RandomKHook& hook, const HookPrices& prices) {
  const double sent = hook.fraction * bucket.elements;
  const double message = sent * bucket.bytes / bucket.elements;
  HookPlan plan;
  // The feedback is that of top_k_work(). Places are drawn, and then read to gather the values.
  plan.steps.push_back(
      {append(prices.costs.stream(3 * bucket.bytes, 2),
              prices.costs.stream(2 * index_bytes * sent + scattered(sent, bucket) + message, 2)),
       prices.collective(Collective::all_reduce, message)});
  plan.decode =
      append(prices.costs.stream(bucket.bytes, 1),
             prices.costs.stream(index_bytes * sent + message + scattered(sent, bucket), 1));
  return plan;
}

constexpr double bits = 1.0 / 8;  // bytes of a sign

// signSGD with majority vote. For each element, PyTorch's kernels read and write this many bytes:
//   encode    compare with 0 (b + 1), weigh by the place in a byte (2), add up eight (1 + 1/8)
//   decode    for each message: take bits apart (1/8 + 1), add to the sum (1 + 2 b)
//             at the end: the sign of the sum (2 b)
HookPlan sign(const Bucket& bucket, const HookPrices& prices) {
  const double n = bucket.elements, b = bucket.bytes / n;
  HookPlan plan;
  plan.steps.push_back({prices.costs.stream((b + 4 + bits) * n, 3),
                        prices.collective(Collective::all_gather, prices.ranks * bits * n)});
  plan.decode = append(prices.costs.stream(prices.ranks * (2 + bits + 2 * b) * n, 2 * prices.ranks),
                       prices.costs.stream(2 * bucket.bytes, 1));
  return plan;
}

// QSGD with 8-bit levels. Bytes moved for each element to encode: norm (b), random numbers (b),
// levels (2 b + 1). To decode one message, its levels are scaled and added (1 + 2 b). A message has
// n bytes and a norm of 4 bytes.
HookPlan qsgd(const Bucket& bucket, const HookPrices& prices) {
  const double n = bucket.elements, b = bucket.bytes / n;
  const double message = n + 4;
  HookPlan plan;
  plan.steps.push_back({prices.costs.stream((4 * b + 1) * n, 3),
                        prices.collective(Collective::all_gather, prices.ranks * message)});
  plan.decode = prices.costs.stream(prices.ranks * (1 + 2 * b) * n, prices.ranks);
  return plan;
}

// The exchange of 1-bit Adam (DeepSpeed, runtime/comm/nccl.py: compressed_allreduce). Each rank
// owns a part of the elements. Every rank sends the signs of each part to its owner (all-to-all).
// The owner adds the signs up and sends the signs of the sum to all ranks (all-gather). Both
// compressions keep their errors for the next step. Passes of that code over all elements:
//   compression             24 passes over numbers, 4 over bytes, in 14 kernels
//   sum of received signs    8 passes over numbers, 2 over bytes, in 6 kernels
//   the final gradients      9 passes over numbers, 2 over bytes, in 6 kernels
HookPlan one_bit(const Bucket& bucket, const HookPrices& prices) {
  const double n = bucket.elements, b = bucket.bytes / n;
  const auto compression = [&](double elements) {
    return prices.costs.stream((24 * b + 4 + bits) * elements, 14);
  };
  HookPlan plan;
  plan.serial = true;
  plan.steps.push_back({compression(n), prices.collective(Collective::all_to_all, bits * n)});
  plan.steps.push_back(
      {append(prices.costs.stream((8 * b + 2 + bits) * n, 6), compression(n / prices.ranks)),
       prices.collective(Collective::all_gather, bits * n)});
  plan.decode = prices.costs.stream((9 * b + 2 + bits) * n, 6);
  return plan;
}

// The plain all-reduce.
HookPlan plain(const Bucket& bucket, const HookPrices& prices) {
  HookPlan plan;
  plan.steps.push_back({{}, prices.collective(Collective::all_reduce, bucket.bytes)});
  return plan;
}

// Combines several lambdas into one visitor for std::visit.
template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

}  // namespace

HookPlan plan_hook(const DdpOptions& options, const Bucket& bucket,
                   const std::vector<GradientTensor>& tensors, const HookPrices& prices) {
  return std::visit(Cases{[&](const PlainHook&) { return plain(bucket, prices); },
                          [&](const Fp16Hook&) { return compress(bucket, prices); },
                          [&](const Bf16Hook&) { return compress(bucket, prices); },
                          [&](const PowerSgdHook& hook) {
                            return power_sgd(bucket, tensors,
                                             hook.rank.value_or(options.power_sgd_rank),
                                             hook.orthogonalization, prices);
                          },
                          [&](const TopKHook& hook) { return top_k(bucket, hook, prices); },
                          [&](const RandomKHook& hook) { return random_k(bucket, hook, prices); },
                          [&](const SignHook&) { return sign(bucket, prices); },
                          [&](const QsgdHook&) { return qsgd(bucket, prices); },
                          [&](const OneBitHook&) { return one_bit(bucket, prices); }},
                    options.comm_hook);
}

HookMemory hook_memory(const CommHook& hook, int ranks, double element_bytes) {
  const double own_and_all = 1.0 + ranks, b = element_bytes;
  const HookMemory half{0, 0.5};  // fact 20
  return std::visit(
      Cases{
          [](const PlainHook&) { return HookMemory{}; }, [&](const Fp16Hook&) { return half; },
          [&](const Bf16Hook&) { return half; },
          [](const PowerSgdHook&) {
            return HookMemory{1, 0};
          },  // fact 21
          [&](const TopKHook& top) {
            return HookMemory{1, own_and_all * top.fraction * (b + index_bytes) / b};
          },
          [&](const RandomKHook& drawn) {
            return HookMemory{1, drawn.fraction * (b + index_bytes) / b};
          },
          [&](const SignHook&) {
            return HookMemory{0, own_and_all * bits / b};
          },
          [&](const QsgdHook&) {
            return HookMemory{0, own_and_all / b};
          },
          // Each rank also keeps the error of the part that it owns. Each message is held twice: as
          // sent and as received.
          [&](const OneBitHook&) {
            return HookMemory{1 + 1.0 / ranks, 2 * bits / b};
          }},
      hook);
}

}  // namespace lockstep
