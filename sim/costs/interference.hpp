// How much a collective that runs beside compute slows it down: its channels take multiprocessors,
// its traffic takes memory bandwidth (facts 112, 113).
#pragma once

#include "hardware/machine.hpp"

namespace lockstep {

// Factor (at least 1) on the duration of device work of which the share `compute_bound` is limited
// by arithmetic and the share `memory_bound` by memory bandwidth (the rest, launch floors, is
// unaffected), while a collective holds `channels` multiprocessors and moves
// `hbm_bytes_per_second`.
double slowdown(const Device& device, double compute_bound, double memory_bound, int channels,
                double hbm_bytes_per_second);

// Compute beside communication on CPUs: one computing thread, and communication threads that would
// keep `demand` cores busy, share `cores` (at least 1 is taken) under a fair scheduler, as CFS is:
// whoever wants less than its half gets what it wants, the other one the rest. On one core compute
// keeps 1 - min(demand, 1/2). Speeds are relative to running alone. The measured effect:
// docs/networks.md.
struct CoreSpeeds {
  double compute = 1;
  double communication = 1;
};
CoreSpeeds share_cores(double cores, double demand);
// Cores of its host for each rank, when `ranks` fill hosts one after the other.
double cores_per_rank(const Machine& machine, int ranks);

// Device-memory bytes a ring collective moves per byte it sends over the wire: a step that reduces
// reads the received chunk and the own one and writes the result (fact 113: two to three).
inline constexpr double hbm_bytes_per_wire_byte = 3;

}  // namespace lockstep
