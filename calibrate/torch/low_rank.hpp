// PowerSGD's pieces (Vogels et al. 2019, algorithm 1; PyTorch's powerSGD_hook.py with its
// defaults): one arithmetic for the hook of real DDP and for the replay's. Includes ATen.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

// Random numbers that depend only on their key, never on earlier draws. PowerSGD's first Q of
// bucket b are rank 0's of step 0, place b, one after the other.
at::Generator keyed_generator(std::uint64_t seed, std::uint64_t rank, std::int64_t step,
                              std::uint64_t place);

// Gram-Schmidt over the columns, in place.
void orthogonalise(at::Tensor& matrix);

// The rank of a gradient's factors, at most `most`. 0 = the gradient is sent as it is, because it
// is a vector or because its factors are not smaller than half of the gradient
// (min_compression_rate 2). The gradient's rows are its first dimension.
std::int64_t factor_rank(at::IntArrayRef shape, int most);

}  // namespace lockstep
