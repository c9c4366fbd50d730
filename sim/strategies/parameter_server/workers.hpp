// What workers compute, and who they are. Private to the room.
#pragma once

#include "strategies/common/run_steps.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/messages.hpp"

namespace lockstep {

// The compute of one step in segments, and at which of them messages are ready and needed. `sent`:
// what travels, in the order of system.messages.
void add_segments(const Job& job, const ParameterServerOptions& options, const StepCosts& costs,
                  const std::vector<Bundle>& sent, PsSystem& system);

// Ranks in PsSystem::core_of_server become workers.
void add_workers(const Job& job, const SimulatedLinks& links, PsSystem& system);

}  // namespace lockstep
