// How the time from where a lane's device is to the end of a collective divides.
#pragma once

#include <cstddef>
#include <span>

#include "engine/ranks.hpp"

namespace lockstep {

// When a collective ran.
struct Window {
  double start = 0, end = 0;
};

// In seconds, summed over ranks.
struct Gap {
  double exposed = 0;     // this or an earlier collective was running
  double host_bound = 0;  // the own host had not issued it yet
  double waiting = 0;     // others had not arrived
};

// Of lanes that have their collectives together, in groups of wide_lanes: returns how many lanes were
// divided, the few that are left are not. `windows`: of collectives in their order, the last one is
// awaited. `ready`: when each lane was. `ranks`: of each lane. Adds to `steps`, moves the positions to
// the end, and adds what there was to `sum`.
std::size_t divide_together(std::span<const Window> windows, std::span<const double> ready,
                            std::span<const double> ranks, std::span<double> positions,
                            LaneSteps& steps, Gap& sum);

}  // namespace lockstep
