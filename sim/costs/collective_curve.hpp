// Interpolation of measured curves: time of a collective or a message over its size. A machine
// description or a profile brings the curves; collective.cpp prefers them over the model.
#pragma once

#include <string_view>

#include "hardware/machine.hpp"

namespace lockstep {

// A curve at one size.
struct CurveValue {
  double seconds = 0;
  bool on_point = false;  // the size itself was measured
  double cores = 0;       // CPU cores one rank's process keeps busy meanwhile
  // Speeds of the ranks' compute and of the collective while both run, relative to running alone
  // (CollectiveCurve); 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  double one_core_slowdown = 1;  // both processes on one core, relative to one each; 1 if unknown
};

// The machine's curve for this collective and shape; nullptr when there is none.
const CollectiveCurve* find_curve(const Machine& machine, std::string_view collective, int ranks,
                                  int nodes);

// Bytes of a message that are still in buffers on the way when its sender is free. Linear in the
// logarithm of the size between points, constant beyond the ends, at most the message itself; they
// depend on the size because a socket accepts more when a third of its buffer is free. 0 = not
// measured.
double buffered_bytes(const CollectiveCurve& curve, double bytes);

// The curve at `bytes`. Seconds are straight lines in log-log between points, the first point's
// time below it, and the last point's bandwidth above it. A size never takes longer than a larger
// one; noise that contradicts is cut off. Busy cores, speeds and the slowdown on one core are
// linear in the logarithm of the size and constant beyond the ends.
// REQUIRES: the curve has a point.
CurveValue curve_seconds(const CollectiveCurve& curve, double bytes);

}  // namespace lockstep
