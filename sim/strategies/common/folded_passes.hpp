// Passes in which consecutive exchanges of one communicator are simulated as one piece of work
// (engine/exchanged_work.hpp). The training loop uses them for micro-batches that send nothing but
// the exchanges of their layers. A micro-batch may have thousands of exchanges, and each one
// involves only the lanes of its group. The step time is the same as with one event for each
// exchange.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "strategies/common/training_loop.hpp"

namespace lockstep {

class FoldedPasses {
 public:
  // Some items of the pass that are played one after the other, and then a run of exchanges.
  struct Item {
    std::span<const PassItem> items;
    const ExchangedWork* exchanged = nullptr;    // the run; null = no run follows the items
    const Communicator* communicator = nullptr;  // the communicator of the run
  };
  explicit FoldedPasses(TrainingContext& context) : context_(context) {}

  // The items of a pass, folded at the first call. The exchange before a run is not part of the
  // run, so that the lanes of a group begin the run together.
  // REQUIRES: `pass` keeps its address and content as long as this object lives.
  const std::vector<Item>& of(const std::vector<PassItem>& pass);
  // Adds the transfers of a run to the context's provenance.
  void tally(const ExchangedWork& work);

 private:
  std::vector<Item> folded(const std::vector<PassItem>& pass);
  // Appends the beat (layers, exchange, layers beside it) that begins at pass[at] to `work`. `of`
  // is the communicator of the run; the first beat sets it. Returns the index after the beat; 0 =
  // no beat of this communicator begins at this index.
  std::size_t add_beat(const std::vector<PassItem>& pass, std::size_t at, const Communicator*& of,
                       ExchangedWork& work) const;

  TrainingContext& context_;
  std::map<const std::vector<PassItem>*, std::vector<Item>> known_;  // results of of()
  std::deque<ExchangedWork> works_;
  // By run: how often the run contains each transfer.
  std::map<const ExchangedWork*, std::map<const PricedTransfer*, int>> transfers_;
};

}  // namespace lockstep
