// Divides the time from a lane's device position to the end of a collective by cause. Used by
// Communicator::divide() for the lanes of a communicator with one group.
//
//   |  own host is late  |  other lanes are late  |  transfer runs  |
//   position             ready                    start             end
//        host_bound              waiting              exposed
#pragma once

#include <cstddef>
#include <span>

#include "engine/ranks.hpp"
#include "engine/windows.hpp"

namespace lockstep {

// Idle time of compute streams before the end of a collective, in seconds summed over ranks.
struct Gap {
  double exposed = 0;     // this or an earlier collective of the communicator runs
  double host_bound = 0;  // the lane's own host has not issued the collective yet
  double waiting = 0;     // other lanes have not arrived
  double bubble = 0;      // the other pipeline stage has not arrived (point to point)
};

// Divides the gaps of lanes whose collectives have the same windows, in blocks of wide_lanes.
// Collective `last` is awaited; collectives before `first` ended before any lane's position.
// `ranks` are the ranks of each lane. Adds to `steps`, moves the positions to the end of `last`,
// and adds the total to `sum`. Returns the number of divided lanes; the remainder is left to the
// caller.
// REQUIRES: no collective from `first` to `last` follows a collective of another communicator.
std::size_t divide_together(const CollectiveWindows& collectives, std::size_t first,
                            std::size_t last, std::span<const double> ranks,
                            std::span<double> positions, LaneSteps& steps, Gap& sum);

}  // namespace lockstep
