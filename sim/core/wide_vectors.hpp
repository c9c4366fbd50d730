// A macro that compiles a function for the widest vectors of the machine (AVX2 if the processor has
// it). Put it in front of functions with hot loops over lanes (engine/ranks.hpp: one rank, or
// several identical ones); such loops take most of the time of a simulation with thousands of
// lanes.
#pragma once

// Each function is compiled for several vector widths, and the program chooses one when it starts.
// The operations on each value and their order are the same for all widths, so the results are
// equal to the last bit. The macro has no effect under sanitizers, because their start-up code
// makes the choice unsafe.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_WIDE_VECTORS [[gnu::target_clones("avx2", "default")]]
#else
#define LOCKSTEP_WIDE_VECTORS
#endif
