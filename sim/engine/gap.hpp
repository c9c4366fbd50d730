// Divides the time from a lane's device position to the end of a collective by cause. Used by
// Communicator::divide().
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

// Divides the gaps of lanes whose collectives have the same windows, in groups of wide_lanes.
// Returns the number of divided lanes; the remainder is left to the caller. Collective `last` is
// awaited. Collectives before `first` ended before any lane's position. None of them may follow a
// collective of another communicator. `ranks`: ranks of each lane. Adds to `steps`, moves the
// positions to the end, and adds the total to `sum`.
std::size_t divide_together(const CollectiveWindows& collectives, std::size_t first,
                            std::size_t last, std::span<const double> ranks,
                            std::span<double> positions, LaneSteps& steps, Gap& sum);

}  // namespace lockstep
