// A job in a world of its own: its ranks, its links and what its steps have issued so far. A strategy
// makes it first, prices its hooks with it, and acts on it while the training loop runs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "strategies/common/network.hpp"
#include "strategies/common/run_steps.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

struct TrainingContext {
  // `axes`: the groups of its communicators, but for one that is all ranks.
  TrainingContext(const Job& job, const std::string& name, Engine engine,
                  std::span<const RankGroups> axes = {});

  // Issued by the host, as ProcessGroupNCCL does it; starts after `after` on the device.
  Event collective(Communicator& communicator, const PricedTransfer& transfer, const Event& after);
  Event copy(StreamId stream, const PricedTransfer& transfer, const Event& after);
  void copies(const QueuedWork& work, std::string_view name = {});  // on the compute stream
  // Kernels on another stream: the host launches them, the stream runs them after `after`. A CPU has
  // no streams: the thread that computes waits and does it.
  Event run(StreamId stream, const QueuedWork& kernels, const Event& after);

  const Job& job;
  const StepCosts costs;
  const RankSpeeds speeds;
  const Engine engine;
  World world;
  JobNetwork network;
  RankGroup& ranks;
  ProvenanceTally always;      // what every step has
  ProvenanceTally provenance;  // of the steps that are being issued
};

}  // namespace lockstep
