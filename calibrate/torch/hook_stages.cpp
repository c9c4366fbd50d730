// Implements top-k and PowerSGD as stages between collectives (PyTorch's powerSGD_hook.py with its
// defaults). Errors and factors are stored by parameter, because DDP rebuilds its buckets after the
// first step.
#include "torch/hook_stages.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "torch/largest.hpp"
#include "torch/low_rank.hpp"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

// The gradients of a bucket, as one view for each parameter.
Tensors pieces_of(const at::Tensor& flat, const Tensors& parameters) {
  Tensors pieces;
  std::int64_t first = 0;
  for (const at::Tensor& parameter : parameters) {
    pieces.push_back(flat.slice(0, first, first + parameter.numel()).view(parameter.sizes()));
    first += parameter.numel();
  }
  return pieces;
}

// One tensor for each parameter, which stays from step to step.
class ByParameter {
 public:
  at::Tensor& operator[](const at::Tensor& parameter) {
    return tensors_[parameter.unsafeGetTensorImpl()];
  }

 private:
  std::map<const void*, at::Tensor> tensors_;
};

// The part of the gradients that this rank has not sent (error feedback), by parameter.
class Kept {
 public:
  void add_to(const at::Tensor& flat, const Tensors& parameters) {
    const Tensors pieces = pieces_of(flat, parameters);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      at::Tensor piece = pieces[i];
      const at::Tensor& rest = rests_[parameters[i]];
      if (rest.defined()) piece.add_(rest);
    }
  }
  void keep(const at::Tensor& parameter, const at::Tensor& rest) { rests_[parameter] = rest; }

 private:
  ByParameter rests_;
};

// Each rank sends its largest elements and their places.
class TopK final : public CompressionHook {
 public:
  TopK(double fraction, int ranks) : fraction_(fraction), ranks_(ranks) {}

  HookStages stages(const at::Tensor& flat, const Tensors& parameters, std::uint64_t) override {
    return {[this, flat, parameters](const at::Tensor&) { return encode(flat, parameters); },
            [this, flat](const at::Tensor& received) { return decode(flat, received); }};
  }

 private:
  at::Tensor encode(const at::Tensor& flat, const Tensors& parameters) {
    at::Tensor sum = flat.clone();
    kept_.add_to(sum, parameters);
    const at::Tensor places = largest_places(sum, fraction_);
    const at::Tensor values = sum.index_select(0, places);
    const Tensors rests = pieces_of(sum.index_fill_(0, places, 0), parameters);
    for (std::size_t i = 0; i < rests.size(); ++i) kept_.keep(parameters[i], rests[i]);
    return at::cat({values, places.to(at::kInt).view(at::kFloat)});
  }
  at::Tensor decode(const at::Tensor& flat, const at::Tensor& received) const {
    at::Tensor result = flat;
    result.zero_();
    for (const at::Tensor& message : received.chunk(ranks_)) {
      const std::int64_t count = message.numel() / 2;
      result.index_add_(0, message.slice(0, count).view(at::kInt).to(at::kLong),
                        message.slice(0, 0, count));
    }
    return result.div_(ranks_);
  }

  const double fraction_;
  const int ranks_;
  Kept kept_;
};

// PyTorch's powerSGD_hook.py in its compressing phase, with its defaults (warm_start,
// use_error_feedback, min_compression_rate 2). It has three sums over the ranks, each of which
// needs the result of the one before.
class PowerSgd final : public CompressionHook {
 public:
  PowerSgd(int rank, int ranks, std::uint64_t seed) : rank_(rank), ranks_(ranks), seed_(seed) {}

  HookStages stages(const at::Tensor& flat, const Tensors& parameters,
                    std::uint64_t bucket) override {
    const auto under_way = std::make_shared<UnderWay>();
    under_way->flat = flat;
    under_way->parameters = parameters;
    under_way->bucket = bucket;
    const auto stage = [this, under_way](auto work) {
      return [=, this](const at::Tensor& received) { return (this->*work)(*under_way, received); };
    };
    return {stage(&PowerSgd::first_product), stage(&PowerSgd::unpack),
            stage(&PowerSgd::second_product), stage(&PowerSgd::decompress)};
  }

 private:
  struct UnderWay {
    at::Tensor flat;
    Tensors parameters;
    std::uint64_t bucket = 0;
    at::Tensor uncompressed;  // `flat` before anything was lost
    // gradients without factors (for example vectors), and gradients with two factors
    Tensors small, matrices;
    std::vector<std::size_t> compressed;  // indices of the parameters of `matrices`
    at::Tensor all_p, all_q;              // the factors of all matrices, one after the other
    Tensors p, q;                         // views of these: rows x rank, and columns x rank
  };

  at::Tensor first_product(UnderWay& bucket, const at::Tensor&) {
    kept_.add_to(bucket.flat, bucket.parameters);
    bucket.uncompressed = bucket.flat.clone();
    const Tensors pieces = pieces_of(bucket.flat, bucket.parameters);
    std::vector<std::int64_t> ranks, p_first{0}, q_first{0};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::int64_t rank = factor_rank(pieces[i].sizes(), rank_);
      if (rank == 0) {
        bucket.small.push_back(pieces[i].flatten());
        continue;
      }
      bucket.compressed.push_back(i);
      bucket.matrices.push_back(pieces[i].flatten(1));
      ranks.push_back(rank);
      p_first.push_back(p_first.back() + rank * bucket.matrices.back().size(0));
      q_first.push_back(q_first.back() + rank * bucket.matrices.back().size(1));
    }
    bucket.all_p = at::empty({p_first.back()});
    bucket.all_q = at::empty({q_first.back()});
    at::Generator drawn = keyed_generator(seed_, 0, 0, bucket.bucket);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const at::Tensor& matrix = bucket.matrices[i];
      at::Tensor q = bucket.all_q.slice(0, q_first[i], q_first[i + 1]).view({-1, ranks[i]});
      at::Tensor p = bucket.all_p.slice(0, p_first[i], p_first[i + 1]).view({-1, ranks[i]});
      const at::Tensor& before = factors_[bucket.parameters[bucket.compressed[i]]];
      q.copy_(before.defined() ? before : at::randn(q.sizes(), drawn, q.options()));
      orthogonalise(q);
      at::mm_out(p, matrix, q);
      bucket.p.push_back(p);
      bucket.q.push_back(q);
    }
    return bucket.small.empty() ? at::empty({0}) : at::cat(bucket.small);
  }

  at::Tensor unpack(UnderWay& bucket, const at::Tensor& received) {
    const at::Tensor mean = received / ranks_;
    std::int64_t first = 0;
    for (at::Tensor& piece : bucket.small) {
      piece.copy_(mean.slice(0, first, first + piece.numel()));
      first += piece.numel();
    }
    return bucket.all_p;
  }

  at::Tensor second_product(UnderWay& bucket, const at::Tensor&) {
    for (std::size_t i = 0; i < bucket.p.size(); ++i) {
      orthogonalise(bucket.p[i]);
      at::mm_out(bucket.q[i], bucket.matrices[i].t(), bucket.p[i]);
    }
    return bucket.all_q;
  }

  // PyTorch also stores the error of gradients without factors, their distance from the mean. It is
  // left out here, because its sum over the ranks is 0.
  at::Tensor decompress(UnderWay& bucket, const at::Tensor&) {
    bucket.all_q.div_(ranks_);
    for (std::size_t i = 0; i < bucket.p.size(); ++i) {
      at::mm_out(bucket.matrices[i], bucket.p[i], bucket.q[i].t());
    }
    const Tensors rests = pieces_of(bucket.uncompressed - bucket.flat, bucket.parameters);
    for (std::size_t i = 0; i < bucket.p.size(); ++i) {
      const at::Tensor& parameter = bucket.parameters[bucket.compressed[i]];
      factors_[parameter] = bucket.q[i];
      kept_.keep(parameter, rests[bucket.compressed[i]]);
    }
    return bucket.flat;
  }

  const int rank_, ranks_;
  const std::uint64_t seed_;
  Kept kept_;
  ByParameter factors_;
};

}  // namespace

std::unique_ptr<CompressionHook> make_compression_hook(const HookSettings& settings,
                                                       std::uint64_t seed) {
  if (settings.hook == CodedHook::top_k) {
    return std::make_unique<TopK>(settings.fraction, settings.ranks);
  }
  return std::make_unique<PowerSgd>(settings.rank, settings.ranks, seed);
}

}  // namespace lockstep
