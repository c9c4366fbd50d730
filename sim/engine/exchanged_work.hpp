// Layers and the exchanges between them as one piece of work, where nothing but these exchanges joins the
// lanes: what RankGroup::compute(), start() and wait() do one by one, told in sums.
#pragma once

#include <vector>

#include "costs/cost.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// Alternating pieces of layers and exchanges of one communicator. Every exchange is waited for before the
// next piece; `beside` is computed while it runs.
struct ExchangedWork {
  struct Beat {
    QueuedWork work;                         // before the exchange
    const TransferSpec* exchange = nullptr;  // lives as long as the simulation
    QueuedWork beside;
  };
  std::vector<Beat> beats;
  QueuedWork issued;  // all of it as the host issues it: exchanges are busy for their lone time
  std::vector<std::pair<const TransferSpec*, int>> transfers;  // and how often each happens
};

}  // namespace lockstep
