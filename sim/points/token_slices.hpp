// The pieces of sequences that go through the stages of a pipeline in turn (TeraPipe: Li et al. 2021).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strategies/strategy.hpp"

namespace lockstep {

// The step of so many tokens of each sequence, behind so many others.
using PriceSlice = std::function<PricedStep(std::int64_t tokens, std::int64_t before)>;

// The slices of the job's step as `parallel.pipeline.slices` wants them; none where sequences stay whole. Throws
// ConfigError about it when the model has no tokens, looks ahead, or cannot be shared evenly.
std::vector<PricedStep> token_slices(const Job& job, const PriceSlice& price);

}  // namespace lockstep
