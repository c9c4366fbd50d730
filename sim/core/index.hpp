// Converts numbers of type int to indices of containers. Ranks, nodes and servers are numbered by
// int, but containers are indexed by std::size_t: `clocks[at(rank)]` needs no cast at each place.
#pragma once

#include <cstddef>

namespace lockstep {

// The index for the number `i`.
// REQUIRES: i >= 0.
constexpr std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace lockstep
