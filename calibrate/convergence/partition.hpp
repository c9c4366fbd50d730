// Divides a data set among workers without common images: how many images each worker has, and of
// which classes. Includes no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// Returns the indices of each worker's images. Their numbers are proportional to `shares` (1 on
// average), but at least one. `labels`: the class of each image. A worker's class probabilities are
// drawn from a Dirichlet distribution with `concentration` and equal expected probabilities (Hsu,
// Qi, Brown 2019, section 3.1); classes without remaining images are skipped. If `concentration` is
// 0, images are assigned in their order. Draws are keyed by seed, worker and image.
std::vector<std::vector<std::int64_t>> partition(const std::vector<std::uint8_t>& labels,
                                                 const std::vector<double>& shares,
                                                 double concentration, std::uint64_t seed);

}  // namespace lockstep
