// DDP's communication hooks with real numbers: combines the gradients of synchronous ranks into one
// gradient. The replay uses it. Includes ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "results/schedule.hpp"

namespace lockstep {

// Tensors, by parameter or by rank.
using Tensors = std::vector<at::Tensor>;

// Reduces the gradients of `ranks` ranks in step after step. Random draws depend only on seed,
// rank, step and bucket.
class GradientReducer {
 public:
  // `parameters`: number of parameters, for a reduction that names no buckets.
  GradientReducer(const CompressedMean& reduction, int ranks, int parameters, std::uint64_t seed);

  // Combines the gradients of each rank into the gradient that all ranks apply: their mean, or its
  // compressed form.
  Tensors reduce(const std::vector<Tensors>& gradients, std::int64_t step);

  // The mean over the ranks of values that have not been sent, by parameter; empty if the
  // compression keeps none.
  Tensors waiting() const;

 private:
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::vector<std::vector<std::int64_t>> shapes;
    Tensors kept;         // by rank: flat values that the rank has not sent
    Tensors kept_of_sum;  // onebit, by rank: errors of the part that the rank adds up
    Tensors factors;  // powersgd, by parameter of the bucket: Q, with which the next step begins
  };
  at::Tensor reduced(Bucket& bucket, const Tensors& flat, std::uint64_t number,
                     std::int64_t step) const;

  CompressedMean reduction_;
  std::uint64_t seed_;
  std::vector<Bucket> buckets_;
};

}  // namespace lockstep
