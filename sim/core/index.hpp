// Ranks, nodes and servers are counted in int; containers are not.
#pragma once

#include <cstddef>

namespace lockstep {

// The place of number `i` (at least 0) in a container.
constexpr std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace lockstep
