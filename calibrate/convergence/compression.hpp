// DDP's communication hooks with real numbers: the one gradient that ranks in step make of theirs.
// Includes ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "results/schedule.hpp"

namespace lockstep {

// Tensors of one rank, by parameter.
using Tensors = std::vector<at::Tensor>;

// Reduces the gradients of `ranks` ranks step after step. Draws depend on seed, rank, step and
// bucket only.
class GradientReducer {
 public:
  // `parameters`: their number, where the reduction names no buckets.
  GradientReducer(const CompressedMean& reduction, int ranks, int parameters, std::uint64_t seed);

  // Combines the gradients of each rank into the gradient that all ranks apply: their mean, or its
  // compressed form.
  Tensors reduce(const std::vector<Tensors>& gradients, std::int64_t step);

  // Kept errors by parameter, as they would enter the mean; empty where nothing is kept.
  Tensors waiting() const;

 private:
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::vector<std::vector<std::int64_t>> shapes;
    Tensors kept;         // by rank, flat: elements that the rank did not send
    Tensors kept_of_sum;  // onebit, by rank: of the part that it adds up
    Tensors factors;  // powersgd, by parameter of the bucket: Q, which the next step begins with
  };
  at::Tensor reduced(Bucket& bucket, const Tensors& flat, std::uint64_t number,
                     std::int64_t step) const;

  CompressedMean reduction_;
  std::uint64_t seed_;
  std::vector<Bucket> buckets_;
};

}  // namespace lockstep
