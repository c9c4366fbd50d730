// Implements DDP's compressions with real numbers. A compression gets the flat bucket of each rank,
// and returns the flat bucket that all ranks have afterwards. The tensors called `kept` are values
// that a rank has not sent; they are added to the next step's gradients (error feedback). The mean
// over the ranks.
#include "convergence/compression.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "torch/largest.hpp"
#include "torch/low_rank.hpp"

namespace lockstep {

namespace {

at::Tensor mean_of(const Tensors& flat) {
  at::Tensor sum = flat.front().clone();
  for (std::size_t r = 1; r < flat.size(); ++r) sum.add_(flat[r]);
  return sum.div_(static_cast<double>(flat.size()));
}

void add_to(Tensors& kept, const Tensors& flat) {
  for (std::size_t r = 0; r < flat.size(); ++r) {
    kept[r] = kept[r].defined() ? kept[r] + flat[r] : flat[r].clone();
  }
}

// Returns the elements at `places`, which a rank sends, and sets them to 0 in `kept`.
at::Tensor sent(at::Tensor& kept, const at::Tensor& places) {
  at::Tensor values = kept.index_select(0, places);
  kept.index_fill_(0, places, 0);
  return values;
}

// Top-k (Stich et al. 2018, algorithm 1): each rank sends its own largest elements.
at::Tensor top_k(const Tensors& flat, Tensors& kept, double fraction) {
  add_to(kept, flat);
  at::Tensor sum = at::zeros_like(kept.front());
  for (at::Tensor& of_rank : kept) {
    const at::Tensor places = largest_places(of_rank, fraction);
    sum.index_add_(0, places, sent(of_rank, places));
  }
  return sum.div_(static_cast<double>(kept.size()));
}

// Random-k: all ranks draw the same places, so that the values can be added up without places.
at::Tensor random_k(const Tensors& flat, Tensors& kept, double fraction, at::Generator drawn) {
  add_to(kept, flat);
  const std::int64_t elements = kept.front().numel();
  const double count = std::ceil(fraction * static_cast<double>(elements));
  const at::Tensor places =
      at::randperm(elements, drawn).slice(0, 0, static_cast<std::int64_t>(count));
  at::Tensor sum = at::zeros_like(kept.front());
  for (at::Tensor& of_rank : kept) sum.index_add_(0, places, sent(of_rank, places));
  return sum.div_(static_cast<double>(kept.size()));
}

// +1 or -1 for each element, which one bit encodes.
at::Tensor signs_of(const at::Tensor& values) {
  return values.ge(0).to(at::kFloat).mul_(2).sub_(1);
}

// signSGD with majority vote (Bernstein et al. 2018). An element with as many positive as negative
// signs becomes 0.
at::Tensor majority(const Tensors& flat) {
  at::Tensor votes = at::zeros_like(flat.front());
  for (const at::Tensor& of_rank : flat) votes.add_(signs_of(of_rank));
  return votes.sign_();
}

// QSGD (Alistarh et al. 2017, section 3.1): a sign, and seven bits of |g| divided by the bucket's
// 2-norm, rounded up or down at random so that the expected value is exact.
at::Tensor quantised(const at::Tensor& flat, at::Generator drawn) {
  constexpr double levels = 127;
  const double norm = flat.norm().item<double>();
  if (norm == 0) return at::zeros_like(flat);
  at::Tensor level = flat.abs().mul_(levels / norm);
  level.add_(at::rand(flat.sizes(), drawn, flat.options())).floor_();
  return level.mul_(flat.sign()).mul_(norm / levels);
}

// Encodes `kept` as signs times a size that preserves the 2-norm, and leaves the difference in
// `kept`.
at::Tensor one_bit_of(at::Tensor& kept) {
  const double size = kept.norm().item<double>() / std::sqrt(static_cast<double>(kept.numel()));
  at::Tensor coded = signs_of(kept).mul_(size);
  kept = kept - coded;
  return coded;
}

// DeepSpeed's compressed_allreduce (runtime/comm/nccl.py). Each rank sends signs; each rank adds up
// a part of the elements, and sends the signs of the mean. The errors of both encodings are kept.
at::Tensor one_bit(const Tensors& flat, Tensors& kept, Tensors& kept_of_sum) {
  add_to(kept, flat);
  Tensors coded;
  for (at::Tensor& of_rank : kept) coded.push_back(one_bit_of(of_rank));
  const Tensors parts = mean_of(coded).chunk(static_cast<std::int64_t>(kept.size()));
  kept_of_sum.resize(parts.size());
  add_to(kept_of_sum, parts);
  Tensors result;
  for (at::Tensor& part : kept_of_sum) result.push_back(one_bit_of(part));
  return at::cat(result);
}

// Approximates the mean of the ranks' matrices by P Q' (low_rank.hpp). `q` is the Q of the step
// before, and becomes the new Q.
at::Tensor low_rank(const Tensors& matrices, at::Tensor& q) {
  const auto ranks = static_cast<double>(matrices.size());
  orthogonalise(q);
  at::Tensor p = matrices.front().mm(q);
  for (std::size_t r = 1; r < matrices.size(); ++r) p.add_(matrices[r].mm(q));
  orthogonalise(p);
  q = matrices.front().t().mm(p);
  for (std::size_t r = 1; r < matrices.size(); ++r) q.add_(matrices[r].t().mm(p));
  q.div_(ranks);
  return p.mm(q.t());
}

using Shapes = std::vector<std::vector<std::int64_t>>;

// The views of a flat bucket, one for each shape.
Tensors pieces_of(const at::Tensor& flat, const Shapes& shapes) {
  Tensors pieces;
  std::int64_t first = 0;
  for (const std::vector<std::int64_t>& shape : shapes) {
    const auto elements =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    pieces.push_back(flat.slice(0, first, first + elements).view(shape));
    first += elements;
  }
  return pieces;
}

// PowerSGD. Vectors, and matrices whose factors would save too little, are sent unchanged. PyTorch
// also keeps their distance from the mean, which is left out here because its sum over the ranks is
// 0.
at::Tensor power_sgd(const Tensors& flat, const Shapes& shapes, Tensors& kept, Tensors& factors,
                     int most, const at::Generator& drawn) {
  add_to(kept, flat);
  at::Tensor result = mean_of(kept);
  factors.resize(shapes.size());
  std::vector<Tensors> pieces;  // by rank: views of `kept`, in which the error remains
  for (const at::Tensor& of_rank : kept) pieces.push_back(pieces_of(of_rank, shapes));
  const Tensors results = pieces_of(result, shapes);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t rank = factor_rank(shapes[i], most);
    if (rank > 0) {
      Tensors matrices;
      for (const Tensors& of_rank : pieces) matrices.push_back(of_rank[i].flatten(1));
      if (!factors[i].defined()) {
        factors[i] = at::randn({matrices[0].size(1), rank}, drawn, flat.front().options());
      }
      results[i].copy_(low_rank(matrices, factors[i]).view(shapes[i]));
    }
    for (Tensors& of_rank : pieces) {
      if (rank > 0) of_rank[i].sub_(results[i]);
      if (rank == 0) of_rank[i].zero_();
    }
  }
  return result;
}

// The ranks add up values that are cast to `type`, and divide the sum (default_hooks.py, fact 20).
at::Tensor mean_in(at::ScalarType type, const Tensors& flat) {
  Tensors cast;
  for (const at::Tensor& of_rank : flat) cast.push_back(of_rank.to(type));
  return mean_of(cast).to(at::kFloat);
}

at::ScalarType type_of(GradientElement element) {
  return element == GradientElement::fp16   ? at::kHalf
         : element == GradientElement::bf16 ? at::kBFloat16
                                            : at::kFloat;
}

}  // namespace

GradientReducer::GradientReducer(const CompressedMean& reduction, int ranks, int parameters,
                                 std::uint64_t seed)
    : reduction_(reduction), seed_(seed) {
  if (reduction_.buckets.empty()) {
    std::vector<int>& all = reduction_.buckets.emplace_back(static_cast<std::size_t>(parameters));
    std::iota(all.begin(), all.end(), 0);
  }
  for (const std::vector<int>& parameters_of : reduction_.buckets) {
    Bucket& bucket = buckets_.emplace_back();
    for (const int p : parameters_of) bucket.parameters.push_back(static_cast<std::size_t>(p));
    bucket.kept.resize(static_cast<std::size_t>(ranks));
  }
}

Tensors GradientReducer::reduce(const std::vector<Tensors>& gradients, std::int64_t step) {
  const at::NoGradGuard no_gradients;
  const at::ScalarType type = type_of(reduction_.element);
  Tensors result(gradients.front().size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    Tensors flat;
    for (const Tensors& of_rank : gradients) {
      Tensors pieces;
      for (const std::size_t p : bucket.parameters) pieces.push_back(of_rank.at(p).flatten());
      flat.push_back(at::cat(pieces).to(type).to(at::kFloat));
    }
    bucket.shapes.clear();
    for (const std::size_t p : bucket.parameters) {
      bucket.shapes.push_back(gradients.front()[p].sizes().vec());
    }
    const Tensors pieces = pieces_of(reduced(bucket, flat, b, step), bucket.shapes);
    for (std::size_t i = 0; i < pieces.size(); ++i) result[bucket.parameters[i]] = pieces[i];
  }
  return result;
}

at::Tensor GradientReducer::reduced(Bucket& bucket, const Tensors& flat, std::uint64_t number,
                                    std::int64_t step) const {
  switch (reduction_.compression) {
    case Compression::none:
      return mean_in(type_of(reduction_.element), flat);
    case Compression::powersgd:
      return power_sgd(flat, bucket.shapes, bucket.kept, bucket.factors, reduction_.rank,
                       keyed_generator(seed_, 0, 0, number));
    case Compression::top_k:
      return top_k(flat, bucket.kept, reduction_.fraction);
    case Compression::random_k:
      return random_k(flat, bucket.kept, reduction_.fraction,
                      keyed_generator(seed_, 0, step, number));
    case Compression::sign:
      return majority(flat);
    case Compression::qsgd: {
      Tensors coded;
      for (std::size_t r = 0; r < flat.size(); ++r) {
        coded.push_back(quantised(flat[r], keyed_generator(seed_, r, step, number)));
      }
      return mean_of(coded);
    }
    case Compression::onebit:
      return one_bit(flat, bucket.kept, bucket.kept_of_sum);
  }
  return mean_of(flat);
}

Tensors GradientReducer::waiting() const {
  Tensors result;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.kept.front().defined()) continue;
    at::Tensor mean = mean_of(bucket.kept);
    if (!bucket.kept_of_sum.empty()) mean.add_(at::cat(bucket.kept_of_sum));
    const Tensors pieces = pieces_of(mean, bucket.shapes);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      result.resize(std::max(result.size(), bucket.parameters[i] + 1));
      result[bucket.parameters[i]] = pieces[i];
    }
  }
  return result;
}

}  // namespace lockstep
