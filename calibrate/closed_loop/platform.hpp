// The machine on which `lockstep closed-loop` trains, as a platform file. The prediction's scenario
// refers to it.
#pragma once

#include <string>

#include "closed_loop/closed_loop.hpp"

namespace lockstep {

// Ranks are processes on this host, or, if `networked`, each rank is a host, with links of the rate
// options.network. `cores`: logical cores that the processes may use. Every rank is pinned to one
// core, and a server to the first rank's, so a host never uses more cores than it has ranks.
std::string closed_loop_platform(const ClosedLoopOptions& options, int cores, bool networked);

}  // namespace lockstep
