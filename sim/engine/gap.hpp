// How the time from where a lane's device is to the end of a collective divides.
#pragma once

#include <cstddef>
#include <span>

#include "engine/ranks.hpp"
#include "engine/windows.hpp"

namespace lockstep {

// In seconds, summed over ranks.
struct Gap {
  double exposed = 0;     // this or an earlier collective was running
  double host_bound = 0;  // the own host had not issued the next one yet
  double waiting = 0;     // others had not arrived
  double bubble = 0;      // the other stage had not: point to point
};

// Of lanes that have their collectives together, in groups of wide_lanes: returns how many lanes were
// divided, the few that are left are not. Collective `last` is awaited, and those before `first` were
// over before any lane's position. None of them came after a collective of another communicator.
// `ranks`: of each lane. Adds to `steps`, moves the positions to the end, and adds what there was to
// `sum`.
std::size_t divide_together(const CollectiveWindows& collectives, std::size_t first,
                            std::size_t last, std::span<const double> ranks,
                            std::span<double> positions, LaneSteps& steps, Gap& sum);

}  // namespace lockstep
