// Indices of containers from ints. Ranks, nodes and servers are numbered by int, and containers are
// indexed by std::size_t: `clocks[at(rank)]` converts without a cast at each place.
#pragma once

#include <cstddef>

namespace lockstep {

// The number `i` as an index.
// REQUIRES: i >= 0.
constexpr std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace lockstep
