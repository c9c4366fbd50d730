// What stands before a function whose loops shall use the widest vectors of the machine.
#pragma once

// Loops over lanes take most of a simulation with thousands of them: compiled for wide vectors,
// too, which are chosen when the program starts. Each value's operations and their order, and with
// them its bytes, stay the same. With the sanitizers' start-up code that choice is not safe.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_WIDE_VECTORS [[gnu::target_clones("avx2", "default")]]
#else
#define LOCKSTEP_WIDE_VECTORS
#endif
