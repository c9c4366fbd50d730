// How much a collective that runs beside compute slows it down: its channels take multiprocessors,
// its traffic takes memory bandwidth (facts 112, 113).
#pragma once

#include "hardware/device.hpp"

namespace lockstep {

// Factor (at least 1) on the duration of device work of which the share `compute_bound` is limited
// by arithmetic and the share `memory_bound` by memory bandwidth (the rest, launch floors, is
// unaffected), while a collective holds `channels` multiprocessors and moves
// `hbm_bytes_per_second`.
double slowdown(const Device& device, double compute_bound, double memory_bound, int channels,
                double hbm_bytes_per_second);

// Device-memory bytes a ring collective moves per byte it sends over the wire: every step reads the
// received chunk and the own one and writes the result (fact 113).
inline constexpr double hbm_bytes_per_wire_byte = 2.5;

}  // namespace lockstep
