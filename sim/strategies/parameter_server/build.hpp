// Builds a PsSystem from a job and the strategy's options: segments of compute, messages, server
// seconds, links and routes. The strategy calls it before run_parameter_server(), and also for
// memory. Costs come from sim/costs; nothing is simulated.
#pragma once

#include <string>
#include <vector>

#include "strategies/common/run_steps.hpp"
#include "strategies/parameter_server/keys.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// A system, together with the intermediate results that the report needs.
struct PsJob {
  PsSystem system;
  int servers = 1;
  std::vector<ServerPlace> places;
  KeyLayout layout;
  std::vector<Key> keys;
  PsLinks links;                   // all links before simplify()
  std::vector<int> simulated;      // by link of `system`: its index in `links.links`
  ProvenanceTally provenance;      // provenance of the seconds of a step
  std::vector<std::string> notes;  // for the user: limits that were applied
};

// Throws ConfigError if the options do not fit the job's ranks or platform.
PsJob build_parameter_server(const Job& job, const ParameterServerOptions& options);

// Only for build_parameter_server(); defined in workers.cpp. Adds the compute of one step in
// segments. Sets the segment at whose end each message is ready, and the segment that needs its
// weights.
// REQUIRES: system.messages is complete.
void add_segments(const Job& job, const ParameterServerOptions& options, const StepCosts& costs,
                  PsSystem& system);
// The system has one worker for each rank. If ranks run in step and nothing is random, replaces all
// equal ranks by one worker. Translates core_of_server from ranks to workers. Sets `factor`,
// `late_input` and `steady`.
void fold_workers(const Job& job, const ParameterServerOptions& options, PsSystem& system);
// By rank: its number of samples, divided by the mean number. Empty = all ranks draw from the same
// samples.
std::vector<double> data_shares(const Job& job, const ParameterServerOptions& options);

}  // namespace lockstep
