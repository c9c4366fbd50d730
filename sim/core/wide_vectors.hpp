// A macro that compiles a function for the widest vectors of the machine. Put it in front of
// functions with hot loops over lanes.
#pragma once

// Such loops take most of the time of a simulation with thousands of lanes. Each function is
// compiled for several vector widths, and the program chooses one when it starts. Each value's
// operations and their order, and with them its bytes, stay the same. With the sanitizers' start-up
// code the choice is not safe.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_WIDE_VECTORS [[gnu::target_clones("avx2", "default")]]
#else
#define LOCKSTEP_WIDE_VECTORS
#endif
