// Mutual slowdown of compute and communication that overlap on one device. On GPUs the channels of
// a collective occupy multiprocessors and its traffic takes memory bandwidth (facts 112, 113); on
// CPUs both share cores.
#pragma once

#include "hardware/machine.hpp"

namespace lockstep {

// Factor (at least 1) on the duration of GPU work while a collective occupies `channels`
// multiprocessors and moves `hbm_bytes_per_second` bytes/s through device memory. `compute_bound`
// and `memory_bound` are the shares of the work that arithmetic and memory bandwidth limit. The
// rest consists of launch floors, which do not slow down. The collective takes at most three
// quarters of each resource, so the factor is at most 4.
// REQUIRES: both shares >= 0, their sum at most 1.
double slowdown(const Device& device, double compute_bound, double memory_bound, int channels,
                double hbm_bytes_per_second);

// Speeds of a computing thread and of communication threads on a CPU, relative to each running
// alone. The two share cores under a fair scheduler such as CFS: a side that needs less than half
// of the cores gets its need, and the other side gets the rest. Measurements: docs/networks.md.
struct CoreSpeeds {
  double compute = 1;
  double communication = 1;
};
// `cores`: cores of the rank; at least 1 is assumed. `demand`: number of cores that the
// communication threads would occupy if they ran alone. On one core, compute has the speed 1 -
// min(demand, 1/2).
CoreSpeeds share_cores(double cores, double demand);
// CPU cores per rank if `ranks` ranks fill hosts one after the other.
double cores_per_rank(const Machine& machine, int ranks);

// Device-memory bytes that a ring collective moves per byte on the wire. A reducing step reads the
// received chunk and its own chunk, and writes the sum (fact 113: two to three bytes).
inline constexpr double hbm_bytes_per_wire_byte = 3;

}  // namespace lockstep
