// Layers and the exchanges between them (tensor parallelism) as one piece of work. Use it if these
// exchanges are the only link between the lanes: RankGroup::compute() then computes the whole piece
// in sums, with the same result as a sequence of compute(), start() and wait().
#pragma once

#include <vector>

#include "costs/cost.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// Alternating pieces of layers and exchanges of one communicator. The compute stream waits for
// every exchange before the next piece; `beside` is computed while the exchange runs:
//   compute   | work | beside |  | work | beside       |
//   exchange         | exchange  |      | exchange  |
struct ExchangedWork {
  struct Beat {
    QueuedWork work;                         // before the exchange
    const TransferSpec* exchange = nullptr;  // lives as long as the simulation
    QueuedWork beside;
  };
  std::vector<Beat> beats;
  // All work as the host issues it. An exchange counts as busy for its lone time, or for the work
  // beside it if that takes longer.
  QueuedWork issued;
  // The exchanges by kind, and how often each happens, for the traffic of links.
  std::vector<std::pair<const TransferSpec*, int>> transfers;
};

}  // namespace lockstep
