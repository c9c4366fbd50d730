// The machine that `lockstep closed-loop` trains on, as a platform file. The prediction's scenario
// refers to it.
#pragma once

#include <string>

#include "closed_loop/closed_loop.hpp"

namespace lockstep {

// Processes on this host, or, `networked`, one host for each rank, joined at options.network.
// `cores`: logical cores that the processes may use. Every rank is pinned to one (rank modulo
// cores) and a server to the first rank's, so that a host never has more than it has ranks.
std::string closed_loop_platform(const ClosedLoopOptions& options, int cores, bool networked);

}  // namespace lockstep
