// Divides, by cause, the idle time from a lane's position on its device to the end of a collective
// (engine/ranks.hpp explains lanes). Communicator::divide() uses it if all lanes of the
// communicator are one group, and no collective comes after one of another communicator.
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

// Divides the idle times of lanes whose collectives have the same windows, wide_lanes lanes at
// once. The lanes wait for collective `last`; collectives before `first` ended before any lane's
// position. `ranks` is the number of ranks of each lane. Adds to `steps`, moves the positions to
// the end of `last`, and adds the total to `sum`. Returns the number of divided lanes; the caller
// divides the remaining ones.
// REQUIRES: no collective from `first` to `last` comes after a collective of another communicator.
std::size_t divide_together(const CollectiveWindows& collectives, std::size_t first,
                            std::size_t last, std::span<const double> ranks,
                            std::span<double> positions, LaneSteps& steps, Gap& sum);

}  // namespace lockstep
