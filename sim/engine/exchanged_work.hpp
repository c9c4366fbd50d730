// Layers and the exchanges between them as one piece of work. Use it if only these exchanges join
// the lanes: RankGroup::compute() then handles all of them in sums, with the results of a sequence
// of compute(), start() and wait().
#pragma once

#include <vector>

#include "costs/cost.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// Alternating pieces of layers and exchanges of one communicator. The compute stream waits for
// every exchange before the next piece; `beside` is computed while the exchange runs.
struct ExchangedWork {
  struct Beat {
    QueuedWork work;                         // before the exchange
    const TransferSpec* exchange = nullptr;  // lives as long as the simulation
    QueuedWork beside;
  };
  std::vector<Beat> beats;
  QueuedWork issued;  // all work as the host issues it: exchanges are busy for their lone time
  std::vector<std::pair<const TransferSpec*, int>> transfers;  // and how often each happens
};

}  // namespace lockstep
