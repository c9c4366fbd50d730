// Measured curves of a machine: interpolation between their points.
#pragma once

#include <string_view>

#include "hardware/machine.hpp"

namespace lockstep {

struct CurveValue {
  double seconds = 0;
  bool on_point = false;  // the size itself was measured
  double cores = 0;       // CPU cores one rank's process keeps busy meanwhile
  // While the ranks compute beside it, relative to alone (CollectiveCurve); 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  double one_core_slowdown = 1;  // both processes on one core, relative to one each; 1 if unknown
};

// The machine's curve for this collective and shape; nullptr when there is none.
const CollectiveCurve* find_curve(const Machine& machine, std::string_view collective, int ranks,
                                  int nodes);

// Bytes that buffers on the way hold of a message when its sender is free: linear in the logarithm of
// the size, the end points' beyond the ends, at most the message. They depend on the very size: a
// socket takes more when a third of its buffer is free. 0 = not measured.
double buffered_bytes(const CollectiveCurve& curve, double bytes);

// Straight lines in log-log between points; the first point's time below it, the last point's
// bandwidth above. A size never takes longer than a larger one does: noise that says so is cut off.
// Busy cores, speeds and the slow-down on one core are linear in the logarithm of the size, and the
// end points' beyond the ends.
CurveValue curve_seconds(const CollectiveCurve& curve, double bytes);

}  // namespace lockstep
