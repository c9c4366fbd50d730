// Indices of containers from ints. Use it wherever a rank, node or server number, which is an int,
// indexes a container.
#pragma once

#include <cstddef>

namespace lockstep {

// Number `i` (at least 0) as an index.
constexpr std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace lockstep
