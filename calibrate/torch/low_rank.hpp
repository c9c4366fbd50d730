// Parts of PowerSGD (Vogels et al. 2019, algorithm 1; PyTorch's powerSGD_hook.py with its
// defaults), which the hook of real DDP and the replay share. Includes ATen.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

// A generator of random numbers that depend only on this key, never on earlier draws. PowerSGD
// draws the first factors Q of bucket b one after the other with the key rank 0, step 0, place b.
at::Generator keyed_generator(std::uint64_t seed, std::uint64_t rank, std::int64_t step,
                              std::uint64_t place);

// Makes the columns orthonormal by Gram-Schmidt, in place.
void orthogonalise(at::Tensor& matrix);

// The rank of a gradient's factors, at most `most`. 0 = the gradient is sent unchanged, because it
// is a vector, or because its factors would have at least half of its elements
// (min_compression_rate 2). The gradient's rows are its first dimension.
std::int64_t factor_rank(at::IntArrayRef shape, int most);

}  // namespace lockstep
