// The images of workers that share none: how many each has, and of which classes. No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// Indices of the images of each worker, in proportion to `shares` (1 on average), at least one
// each. `labels`: the class of each image. A worker's classes are drawn from a Dirichlet
// distribution of `concentration`, all classes alike a priori (Hsu, Qi, Brown 2019, section 3.1),
// as long as a class has images left; 0 = images are dealt in their order. Draws are keyed by seed,
// worker and image.
std::vector<std::vector<std::int64_t>> partition(const std::vector<std::uint8_t>& labels,
                                                 const std::vector<double>& shares,
                                                 double concentration, std::uint64_t seed);

}  // namespace lockstep
