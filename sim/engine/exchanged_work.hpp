// Layers and the exchanges between them (tensor parallelism) as one piece of work. Used if the
// lanes interact through these exchanges only: RankGroup::compute() then computes the whole piece
// as a sum, with the same result as a sequence of compute(), start() and wait().
#pragma once

#include <vector>

#include "costs/cost.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// Layers and exchanges of one communicator in alternation. The compute stream waits for every
// exchange before it continues with the next `work`; `beside` is computed while the exchange runs:
//   compute   | work | beside |  | work | beside       |
//   exchange         | exchange  |      | exchange  |
struct ExchangedWork {
  struct Beat {
    QueuedWork work;                         // before the exchange
    const TransferSpec* exchange = nullptr;  // lives as long as the simulation
    QueuedWork beside;
  };
  std::vector<Beat> beats;
  // All work as the host issues it. An exchange counts as device time: its seconds without other
  // traffic, or the seconds of the work beside it if that takes longer.
  QueuedWork issued;
  // The exchanges by kind, and how often each happens, for the traffic of links.
  std::vector<std::pair<const TransferSpec*, int>> transfers;
};

}  // namespace lockstep
