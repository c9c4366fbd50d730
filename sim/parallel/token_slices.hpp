// How long the token slices of a pipeline should be (TeraPipe: Li et al. 2021, section 3.3).
#pragma once

#include <functional>
#include <vector>

namespace lockstep {

// Seconds of a stage for a slice of so many units of tokens behind so many others.
using SliceSeconds = std::function<double(int length, int before)>;

// Lengths of slices, which add up to `units`, for which the step takes least: micro_batches x the sum of all
// slices + (stages - 1) x the longest.
std::vector<int> slice_lengths(int units, int stages, int micro_batches,
                               const SliceSeconds& seconds);

}  // namespace lockstep
