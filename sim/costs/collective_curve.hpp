// Interpolation of measured curves: time of a collective or a message over its size. A machine
// description or a profile contains the curves; collective.cpp prefers them to the model.
#pragma once

#include <string_view>

#include "hardware/machine.hpp"

namespace lockstep {

// The values of a curve at one size.
struct CurveValue {
  double seconds = 0;
  bool on_point = false;  // the size itself was measured
  double cores = 0;       // CPU cores that one rank's process occupies meanwhile
  // Speeds of the ranks' compute and of the collective while both run, relative to each running
  // alone (CollectiveCurve); 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  // Time if both processes share one core, over the time with one core each; 1 if unknown.
  double one_core_slowdown = 1;
};

// The machine's curve for this collective and shape; nullptr when there is none.
const CollectiveCurve* find_curve(const Machine& machine, std::string_view collective, int ranks,
                                  int nodes);

// Bytes of a message that are still in buffers between the processes when its sender is free; 0 =
// not measured. The number is linear in the logarithm of the size between points, constant beyond
// the ends, and at most the message. It depends on the size because a socket accepts more data only
// when a third of its buffer is free.
double buffered_bytes(const CollectiveCurve& curve, double bytes);

// The values of the curve at `bytes`. The logarithm of the time is linear in the logarithm of the
// size between two points. Below the first point the time is the first point's, and above the last
// point the bandwidth is the last point's. A measured time that exceeds the time of a larger size
// is noise and is lowered to it. Busy cores, speeds and the slowdown on one core are linear in the
// logarithm of the size and constant beyond the ends.
// REQUIRES: the curve has a point.
CurveValue curve_seconds(const CollectiveCurve& curve, double bytes);

}  // namespace lockstep
