// How out of date the parameters were that pushed gradients were computed from.
#pragma once

#include <cstdint>
#include <map>

#include "results/record.hpp"

namespace lockstep {

// `histogram`: updates that the server applied between a worker's pull and its push -> number of
// pushes. A percentile is the smallest staleness that at least that share of the pushes does not
// exceed.
Staleness staleness_of(std::map<std::int64_t, std::int64_t> histogram);

}  // namespace lockstep
