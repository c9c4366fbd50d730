// Builds a parameter-server system from a job: computed segments, pushed and pulled messages,
// updates and links. Used by the strategy before run_parameter_server(). Costs come from the cost
// room; nothing is simulated here.
#pragma once

#include <string>
#include <vector>

#include "strategies/common/run_steps.hpp"
#include "strategies/parameter_server/keys.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

struct PsJob {
  PsSystem system;
  int servers = 1;
  std::vector<ServerPlace> places;
  KeyLayout layout;
  std::vector<Key> keys;
  PsLinks links;               // every link
  std::vector<int> simulated;  // of `links.links`, those of `system`
  ProvenanceTally provenance;
  std::vector<std::string> notes;
};

PsJob build_parameter_server(const Job& job, const ParameterServerOptions& options);

// --- workers.cpp, for build_parameter_server() alone.
// The compute of one step in segments, and at which of them the system's messages are ready and
// needed.
void add_segments(const Job& job, const ParameterServerOptions& options, const StepCosts& costs,
                  PsSystem& system);
// Merges equal ranks into one worker, where PsSystem::workers and core_of_server list ranks.
void fold_workers(const Job& job, const ParameterServerOptions& options, PsSystem& system);
// Samples of each rank, 1 on average; empty = all draw from all samples alike.
std::vector<double> data_shares(const Job& job, const ParameterServerOptions& options);

}  // namespace lockstep
