// What many runs with failures tell together.
#pragma once

#include <cstdint>

#include "faults/long_run.hpp"
#include "results/record.hpp"

namespace lockstep {

// Plays plan.faults.runs runs. The figures of checkpoints and the price are left to the caller.
RunWithFailures play_all(const LongRun& plan, std::uint64_t seed);

}  // namespace lockstep
