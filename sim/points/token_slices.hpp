// Token slices: parts of sequences that pass through the stages of a pipeline one after the other
// (TeraPipe: Li et al. 2021). Slices shorten the pipeline's bubble; causal attention makes them
// possible, because no token depends on a later one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strategies/strategy.hpp"

namespace lockstep {

// Builds the step of a slice with its costs. The slice has `tokens` tokens of each sequence, after
// `before` earlier tokens.
using PriceSlice = std::function<PricedStep(std::int64_t tokens, std::int64_t before)>;

// Returns the slices of the job's step in the order of their tokens, as `parallel.pipeline.slices`
// demands (0 slices: the lengths that give the shortest step); empty if sequences stay whole.
// Throws ConfigError at that field if the model reads no tokens, has attention to later tokens, or
// has a sequence that the slices do not divide.
std::vector<PricedStep> token_slices(const Job& job, const PriceSlice& price);

}  // namespace lockstep
